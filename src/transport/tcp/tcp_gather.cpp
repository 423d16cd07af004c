// The start-up of rank 0.
#include <poll.h>

#include "axonn/core/log.hpp"
#include "transport/tcp/tcp_start.hpp"

namespace axonn::tcp {

// Rank 0 collects the addresses at which the others listen.
void Start::gather() {
  MeetingPlace& place = *options_.meeting_place;
  const MeetingPoint wanted = place.wanted();
  const bool on_network = wanted.hosts.empty() || !names_loopback(wanted.hosts.front());
  mesh_.secret = wanted.secret;
  SocketAddress address = own_address(wanted);
  if (on_network) address.set_any_interface();
  mesh_.door = std::make_unique<Door>(listen_at(address), secret_of(mesh_.secret));
  if (on_network && mesh_.secret.empty()) {
    log::warn("this job has no AXONN_SECRET: whoever can reach its hosts can join it and change its numbers");
  }
  address.set_port(mesh_.door->port());
  table_[0] = pack(address);
  place.publish(mesh_.door->port());
  for (int missing = options_.ranks - 1; missing > 0;) {
    if (const auto arrival = mesh_.door->next()) {
      if (arrival->greeting.purpose == Purpose::join && enter(*arrival)) --missing;
      continue;
    }
    if (!deadline_.passed()) {
      wait_for(mesh_.door->fd(), POLLIN, deadline_.at_most(kDoorPause));
      continue;
    }
    std::string names;
    for (int rank = 1; rank < options_.ranks; ++rank) {
      if (table_[static_cast<size_t>(rank)].family == 0) names += " " + std::to_string(rank);
    }
    fail("rank 0 of ", options_.ranks, " waited ", patience_in_seconds(), " s in vain for ranks", names,
         "; see if they were started, and their own last lines");
  }
  place.close();
}

// The address for rank 0 to listen at, before it is known if on every interface.
SocketAddress Start::own_address(const MeetingPoint& wanted) {
  if (wanted.hosts.empty()) return any_interface(wanted.port);
  std::string problem;
  const auto addresses = resolve(wanted.hosts.front(), wanted.port, problem);
  AXONN_CHECK(!addresses.empty(), kWhere, "MASTER_ADDR '", wanted.hosts.front(), "' has no address: ", problem);
  return addresses.front();
}

// Returns whether the rank is new. A rank that waits for long joins once more, to see if rank 0 is
// alive.
bool Start::enter(const Arrival& arrival) {
  const auto& [magic, secret, rank, ranks, port, purpose] = arrival.greeting;
  SocketAddress address = peer_address(arrival.socket.get());
  if (address.family() == AF_UNSPEC) return false;  // it has gone
  address.set_port(port);
  Answer answer{.ranks = options_.ranks};
  const bool valid = ranks == options_.ranks && rank > 0 && rank < options_.ranks && port > 0 && port < 65536;
  const PackedAddress packed = pack(address);
  PackedAddress known = valid ? table_[static_cast<size_t>(rank)] : PackedAddress{};
  const bool again = known.family != 0 && known.port == packed.port && known.host == packed.host;
  if (!valid) answer.verdict = Verdict::other_size;
  if (known.family != 0 && !again) answer.verdict = Verdict::taken;
  const bool heard = send(arrival.socket, &answer, sizeof answer);
  AXONN_CHECK(valid, kWhere, "a process with RANK ", rank, " and WORLD_SIZE ", ranks, " came from ", address.host(),
              " to rank 0 of a job of ", options_.ranks,
              "; need the same WORLD_SIZE for all and another MASTER_PORT for another job");
  AXONN_CHECK(answer.verdict != Verdict::taken, kWhere, "two processes say that they are rank ", rank, " of ",
              options_.ranks, ": at ", unpack(known).host(), " and ", address.host(),
              "; need a different RANK for each");
  if (again || !heard) return false;
  table_[static_cast<size_t>(rank)] = packed;
  return true;
}

}  // namespace axonn::tcp
