#include "comm/transport/tcp_transport.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <deque>
#include <optional>
#include <vector>

#include "axonn/core/log.hpp"
#include "comm/transport/tcp_peer.hpp"

namespace axonn {
namespace {

using namespace tcp;

constexpr const char* kSeeItsOutput = "; see that rank's own last lines";
constexpr uint64_t kDoorTag = ~uint64_t{0}, kNoticesTag = kDoorTag - 1;  // others: 2 * rank + index of the link

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(TcpMesh mesh);
  ~TcpTransport() override { mesh_.notices.leave(rank_); }

  std::string_view name() const override { return "tcp"; }
  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(peers_.size()); }

  Ticket send(int peer, uint32_t channel, const void* data, size_t bytes) override;
  Ticket receive(int peer, uint32_t channel, void* data, size_t bytes) override;
  bool test(Ticket ticket) override;
  std::optional<Letter> letter() override;
  void check_others() override { progress(); }
  void abandon(const std::string&) noexcept override { give_up(0); }
  void abort(int exit_status) noexcept override;

 private:
  Peer& peer(int rank);
  static uint64_t tag(const Peer& peer, const Link& link);

  template <typename Call>
  auto or_fail_job(Call call);
  void admit();
  void connect(Peer& peer);
  void progress();
  void write(Peer& peer);
  void read(Peer& peer, Link& link);
  void end(Peer& peer, Link& link, const std::string& why);
  void read_notices();
  void fail_if_needed(const Peer& peer);
  [[noreturn]] void fail_job(const std::string& why);
  std::string outstanding_with(const Peer& peer) const;
  void give_up(int exit_status) noexcept;

  TcpMesh mesh_;
  const int rank_;
  Descriptor epoll_;
  Tickets tickets_;
  std::deque<Letter> letters_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank, made when they are needed
  std::string failure_;                       // thrown by every test() once set
};

TcpTransport::TcpTransport(TcpMesh mesh)
    : mesh_(std::move(mesh)),
      rank_(mesh_.options.rank),
      epoll_(make_epoll()),
      peers_(static_cast<size_t>(mesh_.options.ranks)) {
  tcp::watch(epoll_, mesh_.notices.fd(), EPOLLIN, kNoticesTag);
  if (mesh_.door) tcp::watch(epoll_, mesh_.door->fd(), EPOLLIN, kDoorTag);
  admit();
}

Peer& TcpTransport::peer(int rank) {
  AXONN_ASSERT(rank >= 0 && rank < ranks(), "peer ", rank, " of ", ranks(), " ranks");
  auto& peer = peers_[static_cast<size_t>(rank)];
  if (!peer) {
    std::string name = detail::concatenate("rank ", rank);
    if (rank != rank_) name += " (" + mesh_.addresses[static_cast<size_t>(rank)].host() + ")";
    peer = std::make_unique<Peer>(Inbox::Owner{.rank = rank_,
                                               .peer = rank,
                                               .peer_name = std::move(name),
                                               .most_unexpected_bytes = mesh_.options.most_unexpected_bytes},
                                  tickets_, letters_);
  }
  return *peer;
}

uint64_t TcpTransport::tag(const Peer& peer, const Link& link) {
  return 2 * static_cast<uint64_t>(peer.rank) + static_cast<uint64_t>(&link - peer.links.data());
}

// For calls after whose errors this rank cannot go on.
template <typename Call>
auto TcpTransport::or_fail_job(Call call) {
  try {
    return call();
  } catch (const Error& error) {
    fail_job(error.sentence());
  }
}

// Takes the connections that other ranks have made.
void TcpTransport::admit() {
  const auto take = [this](Arrival& arrival) {
    const Greeting& words = arrival.greeting;
    if (words.purpose != Purpose::messages) return;
    const bool valid = words.ranks == ranks() && words.rank >= 0 && words.rank < ranks() && words.rank != rank_;
    if (!valid || peer(words.rank).links[Peer::kTaken].open()) {
      log::warn("a connection from ", peer_address(arrival.socket.get()).host(),
                " was refused: it says that it is rank ", words.rank, " of ", words.ranks);
      return;
    }
    Peer& from = peer(words.rank);
    Link& link = from.links[Peer::kTaken];
    link.take(std::move(arrival.socket));
    or_fail_job([&] { from.inbox.restart(Peer::kTaken); });
    from.ended.clear();
    set_message_options(link.fd(), mesh_.options.silence);
    link.watch(epoll_, tag(from, link), false);
  };
  for (Arrival& early : mesh_.arrivals) take(early);
  mesh_.arrivals.clear();
  while (mesh_.door) {
    auto arrival = or_fail_job([this] { return mesh_.door->next(); });
    if (!arrival) return;
    take(*arrival);
  }
}

// Chooses the link for all that this rank sends to the peer.
void TcpTransport::connect(Peer& peer) {
  peer.sends = &peer.links[Peer::kTaken];
  if (peer.sends->open()) return;
  peer.sends = &peer.links[Peer::kMade];
  Link& link = *peer.sends;
  std::string problem;
  Descriptor socket =
      or_fail_job([&] { return start_connect(mesh_.addresses[static_cast<size_t>(peer.rank)], problem); });
  if (!socket.open()) return end(peer, link, problem);
  set_message_options(socket.get(), mesh_.options.silence);
  link.make(std::move(socket), {.secret = secret_of(mesh_.secret),
                                .rank = rank_,
                                .ranks = ranks(),
                                .port = mesh_.door->port(),
                                .purpose = Purpose::messages});
  link.watch(epoll_, tag(peer, link), true);
}

Transport::Ticket TcpTransport::send(int rank, uint32_t channel, const void* data, size_t bytes) {
  Peer& to = peer(rank);
  const uint32_t slot = tickets_.new_slot();
  const auto* from = static_cast<const std::byte*>(data);
  if (rank == rank_) {
    or_fail_job([&] { to.inbox.put(channel, from, bytes); });
    tickets_.finish(slot);
    return tickets_.ticket(slot);
  }
  to.outgoing.push({Header{.bytes = bytes, .channel = channel}, from, 0, slot});
  if (!to.ended.empty()) {
    fail_if_needed(to);
  } else if (to.outgoing.size() == 1) {
    if (to.sends == nullptr) connect(to);
    write(to);
  }
  return tickets_.ticket(slot);
}

Transport::Ticket TcpTransport::receive(int rank, uint32_t channel, void* data, size_t bytes) {
  Peer& from = peer(rank);
  const uint32_t slot = tickets_.new_slot();
  or_fail_job([&] { from.inbox.receive(channel, static_cast<std::byte*>(data), bytes, slot); });
  if (!from.ended.empty()) fail_if_needed(from);
  return tickets_.ticket(slot);
}

bool TcpTransport::test(Ticket ticket) {
  if (!tickets_.done(ticket)) progress();
  if (!tickets_.done(ticket)) return false;
  tickets_.give_back(ticket);
  return true;
}

std::optional<Transport::Letter> TcpTransport::letter() {
  if (letters_.empty()) return std::nullopt;
  const Letter first = letters_.front();
  letters_.pop_front();
  return first;
}

void TcpTransport::progress() {
  if (!failure_.empty()) throw BackendError(kWhere, failure_);
  std::array<epoll_event, 64> events;
  const int found = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  if (found < 0 && errno != EINTR) fail("epoll_wait: ", error_text(errno));
  bool noticed = false;  // the news of an end comes after the messages that were sent before it
  for (int i = 0; i < found; ++i) {
    const uint64_t tag = events[static_cast<size_t>(i)].data.u64;
    const uint32_t what = events[static_cast<size_t>(i)].events;
    if (tag == kDoorTag) {
      admit();
      continue;
    }
    if (tag == kNoticesTag) {
      noticed = true;
      continue;
    }
    Peer& from = peer(static_cast<int>(tag / 2));
    Link& link = from.links[tag % 2];
    // Reading comes first, because messages that a rank sent before it ended still count.
    if (link.open() && (what & (EPOLLIN | EPOLLHUP | EPOLLERR))) read(from, link);
    if (link.open() && (what & EPOLLOUT)) write(from);
  }
  if (noticed) read_notices();
}

void TcpTransport::write(Peer& peer) {
  if (peer.sends == nullptr || !peer.sends->open()) return;
  Link& link = *peer.sends;
  const std::string end_of_link = link.write(peer.outgoing, tickets_);
  if (!end_of_link.empty()) return end(peer, link, end_of_link);
  link.watch(epoll_, tag(peer, link), !peer.outgoing.empty());
}

void TcpTransport::read(Peer& peer, Link& link) {
  const auto connection = static_cast<size_t>(&link - peer.links.data());
  const std::string end_of_link = or_fail_job([&] { return link.read(peer.inbox, connection); });
  if (!end_of_link.empty()) end(peer, link, end_of_link);
}

// A peer has ended when its last link has; the other may still bring messages.
void TcpTransport::end(Peer& peer, Link& link, const std::string& why) {
  link.close();
  const bool loses_messages = peer.sends == &link && !peer.outgoing.empty();
  if (peer.sends == &link) peer.sends = nullptr;
  admit();
  if (peer.connected() && !loses_messages) return;
  peer.ended = why;
  fail_if_needed(peer);
}

std::string TcpTransport::outstanding_with(const Peer& peer) const {
  if (peer.inbox.posted() == 0 && peer.outgoing.empty()) return {};
  return detail::concatenate(" while rank ", rank_, " waits for ", peer.inbox.posted(), " messages from it and has ",
                             peer.outgoing.size(), " for it");
}

void TcpTransport::read_notices() {
  const auto notice = mesh_.notices.poll();
  if (!notice || notice->rank < 0 || notice->rank >= ranks() || notice->rank == rank_) return;
  const Peer& gone = peer(notice->rank);
  if (notice->kind == Notice::Kind::gave_up) {
    const std::string status = notice->status == 0 ? "" : detail::concatenate(" with exit status ", notice->status);
    fail_job(gone.name + " gave up on the job" + status + kSeeItsOutput);
  }
  const std::string outstanding = outstanding_with(gone);
  fail_job(gone.name + " has ended" + (outstanding.empty() ? " before the job" : outstanding) + kSeeItsOutput);
}

// An ended rank is an error only when something is still outstanding with it.
void TcpTransport::fail_if_needed(const Peer& peer) {
  const std::string outstanding = outstanding_with(peer);
  if (outstanding.empty()) return;
  read_notices();  // they know who was the first to end
  mesh_.notices.tell({.kind = Notice::Kind::ended, .rank = peer.rank});
  fail_job(peer.name + " has ended" + outstanding + ": " + peer.ended + kSeeItsOutput);
}

void TcpTransport::fail_job(const std::string& why) {
  failure_ = why;
  throw BackendError(kWhere, failure_);
}

void TcpTransport::give_up(int exit_status) noexcept {
  mesh_.notices.tell({.kind = Notice::Kind::gave_up, .rank = rank_, .status = exit_status});
}

void TcpTransport::abort(int exit_status) noexcept {
  const int status = exit_status == 0 ? 1 : exit_status;
  give_up(status);
  ::_exit(status);
}

}  // namespace

std::unique_ptr<Transport> make_tcp_transport(TcpMesh mesh) { return std::make_unique<TcpTransport>(std::move(mesh)); }

std::unique_ptr<Transport> make_tcp_transport(const TcpOptions& options) {
  return make_tcp_transport(connect_tcp_mesh(options));
}

}  // namespace axonn
