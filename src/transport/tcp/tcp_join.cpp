// The start-up of a rank that reaches rank 0.
#include <poll.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "transport/rank_tree.hpp"
#include "transport/tcp/tcp_start.hpp"

namespace axonn::tcp {
namespace {

constexpr std::chrono::milliseconds kRetryPause{50};
constexpr std::chrono::milliseconds kAttemptPatience{5000};  // for one attempt to connect, and for its answer

}  // namespace

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
  if (answer.verdict == Verdict::other_secret)
    throw OneRankError(
        kWhere, detail::concatenate(me(), " and ", where_rank_0_is(),
                                    " have different values of AXONN_SECRET; need the same for all ranks, and another "
                                    "MASTER_PORT for another job"));
  if (answer.verdict == Verdict::other_size)
    throw OneRankError(
        kWhere, detail::concatenate(me(), " came to ", where_rank_0_is(), ", whose job has WORLD_SIZE ", answer.ranks,
                                    "; need the same WORLD_SIZE for all and another MASTER_PORT for another job"));
  if (answer.verdict == Verdict::taken)
    throw OneRankError(kWhere, detail::concatenate(me(), " is there already, says ", where_rank_0_is(),
                                                   "; need a different RANK for each process"));
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

}  // namespace axonn::tcp
