#include "comm/transport/tcp_mesh.hpp"

#include <poll.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "axonn/core/log.hpp"

namespace axonn {
namespace {

using namespace tcp;

constexpr std::chrono::milliseconds kRetryPause{50};
constexpr std::chrono::milliseconds kAttemptPatience{5000};  // for one attempt to connect, and for its answer
constexpr std::chrono::milliseconds kDoorPause{50};          // between two looks at connections that say nothing

class Start {
 public:
  explicit Start(const TcpOptions& options) : options_(options), deadline_(options.patience), table_(options.ranks) {
    mesh_.options = options;
  }

  void gather();
  void join();
  void spread();
  TcpMesh take();

 private:
  Greeting greeting(Purpose purpose) const;
  bool send(const Descriptor& socket, const void* data, size_t bytes);
  bool enter(const Arrival& arrival);
  static SocketAddress own_address(const MeetingPoint& wanted);
  void listen(const SocketAddress& local, const std::string& host);
  std::optional<Answer> try_point(const MeetingPoint& point, std::string& problem);
  std::optional<Answer> ask_rank_0(const Descriptor& socket);
  void check(const Answer& answer) const;
  Arrival parent();
  bool rank_0_is_gone() const;
  std::string me() const { return detail::concatenate("rank ", options_.rank, " of ", options_.ranks); }
  std::string where_rank_0_is() const { return "rank 0 at " + options_.meeting_place->name(); }
  double patience_in_seconds() const { return static_cast<double>(options_.patience.count()) / 1000; }

  const TcpOptions options_;
  const Deadline deadline_;
  std::vector<PackedAddress> table_;  // by rank; family 0: not known yet
  SocketAddress rank_0_;
  TcpMesh mesh_;
};

Greeting Start::greeting(Purpose purpose) const {
  return {.secret = secret_of(mesh_.secret),
          .rank = options_.rank,
          .ranks = options_.ranks,
          .port = mesh_.door->port(),
          .purpose = purpose};
}

bool Start::send(const Descriptor& socket, const void* data, size_t bytes) {
  mesh_.bytes_sent += bytes;
  return write_all(socket.get(), data, bytes, deadline_);
}

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

// Listens at the address by which this rank reaches rank 0. A rank on rank 0's host may reach it by
// a loopback address although others will come from the network.
void Start::listen(const SocketAddress& local, const std::string& host) {
  SocketAddress address = local;
  if (address.is_loopback() && !names_loopback(host)) address.set_any_interface();
  address.set_port(0);
  mesh_.door = std::make_unique<Door>(listen_at(address), secret_of(mesh_.secret));
}

// Any other rank tells rank 0 where it listens, and gets the table from its parent in the tree.
void Start::join() {
  MeetingPlace& place = *options_.meeting_place;
  std::string problem = "rank 0 has not said where it is";
  std::optional<std::string> refused;  // the secret of an earlier job, whose port is another's now
  for (std::optional<Answer> answer; !answer;) {
    if (deadline_.passed()) {
      fail(me(), " could not reach ", where_rank_0_is(), " in ", patience_in_seconds(), " s: ", problem, "; ",
           place.need());
    }
    if (const auto point = place.find(); point && point->secret != refused) answer = try_point(*point, problem);
    if (answer && answer->verdict == Verdict::other_secret && place.may_change()) {
      refused = mesh_.secret;
      answer.reset();
      problem = "another job is there";
    }
    if (answer) check(*answer);
    if (!answer) std::this_thread::sleep_for(std::min(kRetryPause, std::max(deadline_.remaining(), kRetryPause / 50)));
  }
  Arrival from = parent();
  if (!read_all(from.socket.get(), table_.data(), table_.size() * sizeof(PackedAddress), deadline_)) {
    fail(me(), ": rank ", from.greeting.rank, " ended during start-up; see that rank's own last lines");
  }
  mesh_.notices.add(from.greeting.rank, std::move(from.socket), options_.silence);
}

std::optional<Answer> Start::try_point(const MeetingPoint& point, std::string& problem) {
  for (const std::string& host : point.hosts)
    for (const auto& address : resolve(host, point.port, problem)) {
      const Descriptor socket = connect_once(address, deadline_.at_most(kAttemptPatience), problem);
      if (!socket.open()) continue;
      rank_0_ = address;
      const bool other_secret = std::exchange(mesh_.secret, point.secret) != point.secret;
      if (!mesh_.door || other_secret) listen(local_address(socket.get()), host);
      if (const auto answer = ask_rank_0(socket)) return answer;
      problem = "it closed the connection or did not answer";
    }
  return std::nullopt;
}

std::optional<Answer> Start::ask_rank_0(const Descriptor& socket) {
  const Greeting words = greeting(Purpose::join);
  Answer answer;
  if (!send(socket, &words, sizeof words)) return std::nullopt;
  if (!read_all(socket.get(), &answer, sizeof answer, deadline_.at_most(kAttemptPatience))) return std::nullopt;
  if (answer.magic != Answer{}.magic) return std::nullopt;
  return answer;
}

void Start::check(const Answer& answer) const {
  AXONN_CHECK(answer.verdict != Verdict::other_secret, kWhere, me(), " and ", where_rank_0_is(),
              " have different values of AXONN_SECRET; need the same for all ranks, and another MASTER_PORT for "
              "another job");
  AXONN_CHECK(answer.verdict != Verdict::other_size, kWhere, me(), " came to ", where_rank_0_is(),
              ", whose job has WORLD_SIZE ", answer.ranks,
              "; need the same WORLD_SIZE for all and another MASTER_PORT for another job");
  AXONN_CHECK(answer.verdict != Verdict::taken, kWhere, me(), " is there already, says ", where_rank_0_is(),
              "; need a different RANK for each process");
}

// Waits for the connection from the parent in the tree.
Arrival Start::parent() {
  const auto pause = std::chrono::milliseconds(1000 + options_.ranks);  // so that rank 0 is not kept busy
  for (auto look_at = deadline_.remaining() - pause; !deadline_.passed();) {
    if (auto arrival = mesh_.door->next()) {
      const Greeting& words = arrival->greeting;
      if (words.ranks != options_.ranks || words.purpose == Purpose::join) continue;
      if (words.purpose == Purpose::notices && words.rank == parent_of(options_.rank)) return std::move(*arrival);
      if (words.purpose == Purpose::messages) mesh_.arrivals.push_back(std::move(*arrival));
      continue;
    }
    wait_for(mesh_.door->fd(), POLLIN, deadline_.at_most(kDoorPause));
    if (deadline_.remaining() > look_at) continue;
    look_at = deadline_.remaining() - pause;
    if (rank_0_is_gone()) fail(me(), " reached ", where_rank_0_is(), ", but it has ended since: see its own message");
  }
  fail(me(), " reached ", where_rank_0_is(), ", but other ranks have not come in time: see rank 0's message");
}

bool Start::rank_0_is_gone() const {
  std::string problem;
  const Descriptor socket = connect_once(rank_0_, deadline_.at_most(kAttemptPatience), problem);
  if (!socket.open()) return problem == error_text(ECONNREFUSED);
  const Greeting words = greeting(Purpose::join);
  write_all(socket.get(), &words, sizeof words, deadline_);
  return false;
}

// Passes the table on to the children.
void Start::spread() {
  // A rank that rank 0 sees at a loopback address is on rank 0's host. If this rank is too, it sees
  // the other one there as well.
  for (int rank = 0; rank < options_.ranks; ++rank) {
    auto& address = mesh_.addresses.emplace_back(unpack(table_[static_cast<size_t>(rank)]));
    const bool as_rank_0_sees_it = rank > 0 && (!address.is_loopback() || rank_0_.is_loopback());
    if (options_.rank == 0 || as_rank_0_sees_it) continue;
    const int port = address.port();
    address = rank_0_;
    address.set_port(port);
  }
  const Greeting words = greeting(Purpose::notices);
  for (const int child : children_of(options_.rank, options_.ranks)) {
    const auto& address = mesh_.addresses[static_cast<size_t>(child)];
    std::string problem;
    Descriptor socket = connect_once(address, deadline_, problem);
    if (!socket.open() || !send(socket, &words, sizeof words) ||
        !send(socket, table_.data(), table_.size() * sizeof(PackedAddress))) {
      fail("rank ", child, " (", address.host(), ") ended during start-up, or rank ", options_.rank,
           " cannot reach its port ", address.port(), ": ", problem.empty() ? "it closed the connection" : problem,
           "; see that rank's own last lines");
    }
    mesh_.notices.add(child, std::move(socket), options_.silence);
  }
}

TcpMesh Start::take() { return std::move(mesh_); }

}  // namespace

TcpMesh connect_tcp_mesh(const TcpOptions& options) {
  AXONN_CHECK(options.ranks >= 1 && options.rank >= 0 && options.rank < options.ranks, kWhere,
              "need 0 <= RANK < WORLD_SIZE, got RANK ", options.rank, " and WORLD_SIZE ", options.ranks);
  raise_file_limit();
  Start start(options);
  if (options.ranks > 1) {
    options.rank == 0 ? start.gather() : start.join();
    start.spread();
  }
  return start.take();
}

}  // namespace axonn
