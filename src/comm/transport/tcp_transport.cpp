#include "comm/transport/tcp_transport.hpp"

#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
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
constexpr size_t kTurnBytes = size_t{4} << 20;  // limit for reading from or writing to one peer before the next peer
constexpr uint64_t kDoorTag = ~uint64_t{0}, kNoticesTag = kDoorTag - 1;  // others: 2 * rank + index of the link

struct Slot {
  uint32_t generation = 0;
  bool done = false;
};

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
  uint32_t new_slot();
  Ticket ticket(uint32_t slot) const { return uint64_t{slots_[slot].generation} << 32 | slot; }

  template <typename Call>
  auto or_fail_job(Call call);
  void admit();
  void connect(Peer& peer);
  void progress();
  void write(Peer& peer);
  bool greet(Peer& peer);
  bool write_some(Peer& peer, Outgoing& message, size_t& turn);
  void watch_for_room(Peer& peer, bool for_room);
  void read(Peer& peer, Link& link);
  size_t read_some(Peer& peer, Link& link, void* data, size_t bytes);
  void start_message(Peer& peer, Incoming& incoming);
  void finish_message(Peer& peer, Incoming& incoming);
  void check_size(const Peer& peer, size_t expected, size_t sent);
  void send_to_self(uint32_t channel, const std::byte* data, size_t bytes, uint32_t slot);
  void take_over(Peer& peer, Incoming& incoming, const Posted& posted);
  void end(Peer& peer, Link& link, const std::string& why);
  void heed_notices();
  void fail_if_needed(const Peer& peer);
  [[noreturn]] void fail_job(const std::string& why);
  std::string with_host(const Peer& peer) const;
  std::string outstanding_with(const Peer& peer) const;
  void give_up(int exit_status) noexcept;

  TcpMesh mesh_;
  const int rank_;
  Descriptor epoll_;
  std::vector<Peer> peers_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  std::deque<Letter> letters_;
  std::string failure_;  // thrown by every test() once set
};

TcpTransport::TcpTransport(TcpMesh mesh)
    : mesh_(std::move(mesh)),
      rank_(mesh_.options.rank),
      epoll_(make_epoll()),
      peers_(static_cast<size_t>(mesh_.options.ranks)) {
  for (size_t i = 0; i < peers_.size(); ++i) peers_[i].rank = static_cast<int>(i);
  tcp::watch(epoll_, mesh_.notices.fd(), EPOLLIN, kNoticesTag);
  if (mesh_.door) tcp::watch(epoll_, mesh_.door->fd(), EPOLLIN, kDoorTag);
  admit();
}

Peer& TcpTransport::peer(int rank) {
  AXONN_ASSERT(rank >= 0 && rank < ranks(), "peer ", rank, " of ", ranks(), " ranks");
  return peers_[static_cast<size_t>(rank)];
}

uint32_t TcpTransport::new_slot() {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  slots_[slot].done = false;
  return slot;
}

// For calls that need the system's resources: without them this rank cannot go on.
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
    if (!valid || peer(words.rank).links[Peer::kTaken].socket.open()) {
      log::warn("a connection from ", peer_address(arrival.socket.get()).host(),
                " was refused: it says that it is rank ", words.rank, " of ", words.ranks);
      return;
    }
    Peer& from = peer(words.rank);
    Link& link = from.links[Peer::kTaken];
    link = {.socket = std::move(arrival.socket), .greeting = {}, .incoming = {}};
    from.ended.clear();
    set_message_options(link.socket.get(), mesh_.options.silence);
    tcp::watch(epoll_, link.socket.get(), EPOLLIN, 2 * static_cast<uint64_t>(from.rank) + Peer::kTaken);
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
  if (peer.sends->socket.open()) return;
  peer.sends = &peer.links[Peer::kMade];
  Link& link = *peer.sends;
  std::string problem;
  link.socket = or_fail_job([&] { return start_connect(mesh_.addresses[static_cast<size_t>(peer.rank)], problem); });
  if (!link.socket.open()) return end(peer, link, problem);
  set_message_options(link.socket.get(), mesh_.options.silence);
  link.greeting = {.secret = secret_of(mesh_.secret),
                   .rank = rank_,
                   .ranks = ranks(),
                   .port = mesh_.door->port(),
                   .purpose = Purpose::messages};
  link.greeted = 0;
  link.waits_for_room = true;
  tcp::watch(epoll_, link.socket.get(), EPOLLIN | EPOLLOUT, 2 * static_cast<uint64_t>(peer.rank) + Peer::kMade);
}

Transport::Ticket TcpTransport::send(int rank, uint32_t channel, const void* data, size_t bytes) {
  Peer& to = peer(rank);
  const uint32_t slot = new_slot();
  const auto* from = static_cast<const std::byte*>(data);
  if (rank == rank_) {
    send_to_self(channel, from, bytes, slot);
    return ticket(slot);
  }
  to.outgoing.push({Header{.bytes = bytes, .channel = channel}, from, 0, slot});
  if (!to.ended.empty()) {
    fail_if_needed(to);
  } else if (to.outgoing.size() == 1) {
    if (to.sends == nullptr) connect(to);
    write(to);
  }
  return ticket(slot);
}

void TcpTransport::send_to_self(uint32_t channel, const std::byte* data, size_t bytes, uint32_t slot) {
  Peer& self = peer(rank_);
  auto& [posted, unexpected] = self.channels[channel];
  slots_[slot].done = true;
  if (posted.empty()) {
    self.unexpected_bytes += bytes;
    unexpected.push_back({std::make_unique_for_overwrite<std::byte[]>(bytes), bytes});
    std::copy_n(data, bytes, unexpected.back().data.get());
    return;
  }
  check_size(self, posted.front().bytes, bytes);
  std::copy_n(data, bytes, posted.front().data);
  slots_[posted.front().slot].done = true;
  posted.pop_front();
  --self.posted;
}

Transport::Ticket TcpTransport::receive(int rank, uint32_t channel, void* data, size_t bytes) {
  Peer& from = peer(rank);
  const uint32_t slot = new_slot();
  const Posted wanted{static_cast<std::byte*>(data), bytes, slot};
  auto& [posted, unexpected] = from.channels[channel];
  if (!unexpected.empty()) {
    check_size(from, bytes, unexpected.front().bytes);
    std::copy_n(unexpected.front().data.get(), bytes, wanted.data);
    unexpected.pop_front();
    from.unexpected_bytes -= bytes;
    slots_[slot].done = true;
    return ticket(slot);
  }
  ++from.posted;
  const auto half_here = std::ranges::find_if(from.links, [&](const Link& link) {
    return link.incoming.in_body() && link.incoming.buffer.data != nullptr && link.incoming.header.channel == channel;
  });
  if (half_here != from.links.end()) {
    take_over(from, half_here->incoming, wanted);
  } else {
    posted.push_back(wanted);
  }
  if (!from.ended.empty()) fail_if_needed(from);
  return ticket(slot);
}

// A message that is arriving in a buffer continues in its receiver's memory.
void TcpTransport::take_over(Peer& peer, Incoming& incoming, const Posted& posted) {
  check_size(peer, posted.bytes, incoming.header.bytes);
  std::copy_n(incoming.buffer.data.get(), incoming.arrived, posted.data);
  peer.unexpected_bytes -= incoming.buffer.bytes;
  incoming.buffer = {};
  incoming.target = posted.data;
  incoming.slot = posted.slot;
}

bool TcpTransport::test(Ticket ticket) {
  const auto slot = static_cast<uint32_t>(ticket);
  AXONN_ASSERT(slot < slots_.size() && slots_[slot].generation == ticket >> 32,
               "test() of a ticket that was done before");
  if (!slots_[slot].done) progress();
  if (!slots_[slot].done) return false;
  ++slots_[slot].generation;
  free_slots_.push_back(slot);
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
    Peer& peer = peers_[tag / 2];
    Link& link = peer.links[tag % 2];
    // Reading comes first, because messages that a rank sent before it ended still count.
    if (link.socket.open() && (what & (EPOLLIN | EPOLLHUP | EPOLLERR))) read(peer, link);
    if (link.socket.open() && (what & EPOLLOUT)) write(peer);
  }
  if (noticed) heed_notices();
}

void TcpTransport::write(Peer& peer) {
  if (peer.sends == nullptr || !peer.sends->socket.open()) return;
  size_t turn = kTurnBytes;
  bool room = greet(peer);
  while (room && turn > 0 && !peer.outgoing.empty()) room = write_some(peer, peer.outgoing.next(), turn);
  if (peer.sends != nullptr) watch_for_room(peer, !room || !peer.outgoing.empty());
}

// Returns whether the greeting is sent; the next two return false as well when there is no room.
bool TcpTransport::greet(Peer& peer) {
  Link& link = *peer.sends;
  while (link.greeted < sizeof(Greeting)) {
    const auto* bytes = reinterpret_cast<const char*>(&link.greeting);
    const ssize_t put =
        ::send(link.socket.get(), bytes + link.greeted, sizeof(Greeting) - link.greeted, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno != EAGAIN) end(peer, link, error_text(errno));
    if (put < 0) return false;
    link.greeted += static_cast<size_t>(put);
  }
  return true;
}

bool TcpTransport::write_some(Peer& peer, Outgoing& message, size_t& turn) {
  const size_t in_header = std::min(message.sent, sizeof(Header));
  const size_t in_data = message.sent - in_header;
  std::array<iovec, 2> parts{
      {{reinterpret_cast<std::byte*>(&message.header) + in_header, sizeof(Header) - in_header},
       {const_cast<std::byte*>(message.data) + in_data, std::min(message.header.bytes - in_data, turn)}}};
  msghdr call{};
  call.msg_iov = parts.data();
  call.msg_iovlen = parts.size();
  const ssize_t put = ::sendmsg(peer.sends->socket.get(), &call, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (put < 0 && errno == EINTR) return true;
  if (put < 0 && errno != EAGAIN) end(peer, *peer.sends, error_text(errno));
  if (put < 0) return false;
  message.sent += static_cast<size_t>(put);
  turn -= std::min(turn, static_cast<size_t>(put));
  if (message.sent < sizeof(Header) + message.header.bytes) return true;
  slots_[message.slot].done = true;
  peer.outgoing.pop();
  return true;
}

void TcpTransport::watch_for_room(Peer& peer, bool for_room) {
  Link& link = *peer.sends;
  if (link.waits_for_room == for_room) return;
  const auto index = static_cast<uint64_t>(&link - peer.links.data());
  tcp::watch(epoll_, link.socket.get(), for_room ? EPOLLIN | EPOLLOUT : EPOLLIN,
             2 * static_cast<uint64_t>(peer.rank) + index);
  link.waits_for_room = for_room;
}

void TcpTransport::read(Peer& peer, Link& link) {
  Incoming& incoming = link.incoming;
  for (size_t turn = kTurnBytes; turn > 0;) {
    size_t got = 0;
    if (!incoming.in_body()) {
      auto* header = reinterpret_cast<std::byte*>(&incoming.header);
      got = read_some(peer, link, header + incoming.header_arrived, sizeof(Header) - incoming.header_arrived);
      incoming.header_arrived += got;
      if (got > 0 && incoming.in_body()) start_message(peer, incoming);
    } else {
      const size_t wanted = std::min(incoming.header.bytes - incoming.arrived, turn);
      got = read_some(peer, link, incoming.target + incoming.arrived, wanted);
      incoming.arrived += got;
    }
    if (got == 0) return;
    if (incoming.in_body() && incoming.arrived == incoming.header.bytes) finish_message(peer, incoming);
    turn -= std::min(turn, got);
  }
}

// Returns 0 when nothing more has arrived or the connection has ended.
size_t TcpTransport::read_some(Peer& peer, Link& link, void* data, size_t bytes) {
  const ssize_t got = ::recv(link.socket.get(), data, bytes, MSG_DONTWAIT);
  if (got > 0) return static_cast<size_t>(got);
  if (got == 0) {
    end(peer, link, "it has closed its connection");
  } else if (errno != EAGAIN && errno != EINTR) {
    end(peer, link, error_text(errno));
  }
  return 0;
}

void TcpTransport::start_message(Peer& peer, Incoming& incoming) {
  const Header& header = incoming.header;
  if (header.mark != Header::kMark) {
    fail_job(detail::concatenate("the connection with ", with_host(peer),
                                 " carries bytes that no rank of this job sent",
                                 "; use a network without devices that change data"));
  }
  incoming.arrived = 0;
  auto& posted = peer.channels[header.channel].posted;
  if (!posted.empty()) {
    check_size(peer, posted.front().bytes, header.bytes);
    incoming.target = posted.front().data;
    incoming.slot = posted.front().slot;
    posted.pop_front();
    return;
  }
  if (header.bytes > mesh_.options.most_unexpected_bytes - peer.unexpected_bytes) {
    fail_job(detail::concatenate(with_host(peer), " has sent ", peer.unexpected_bytes, " bytes that rank ", rank_,
                                 " does not receive, and now ", header.bytes, " more; a rank buffers at most ",
                                 mesh_.options.most_unexpected_bytes,
                                 " of another: let the ranks wait for each other"));
  }
  peer.unexpected_bytes += header.bytes;
  incoming.buffer = {std::make_unique_for_overwrite<std::byte[]>(header.bytes), header.bytes};
  incoming.target = incoming.buffer.data.get();
}

void TcpTransport::check_size(const Peer& peer, size_t expected, size_t sent) {
  if (expected != sent) fail_job(other_size(peer.rank, sent, rank_, expected));
}

void TcpTransport::finish_message(Peer& peer, Incoming& incoming) {
  if (incoming.buffer.data != nullptr) {
    if (incoming.header.channel == kLetters) letters_.push_back({peer.rank, incoming.header.bytes});
    peer.channels[incoming.header.channel].unexpected.push_back(std::move(incoming.buffer));
  } else {
    slots_[incoming.slot].done = true;
    --peer.posted;
  }
  incoming = {};
}

// A peer has ended when its last link has; the other may still bring messages.
void TcpTransport::end(Peer& peer, Link& link, const std::string& why) {
  link.socket.close();
  const bool loses_messages = peer.sends == &link && !peer.outgoing.empty();
  if (peer.sends == &link) peer.sends = nullptr;
  admit();
  if (peer.connected() && !loses_messages) return;
  peer.ended = why;
  fail_if_needed(peer);
}

std::string TcpTransport::with_host(const Peer& peer) const {
  return detail::concatenate("rank ", peer.rank, " (", mesh_.addresses[static_cast<size_t>(peer.rank)].host(), ")");
}

std::string TcpTransport::outstanding_with(const Peer& peer) const {
  if (peer.posted == 0 && peer.outgoing.empty()) return {};
  return detail::concatenate(" while rank ", rank_, " waits for ", peer.posted, " messages from it and has ",
                             peer.outgoing.size(), " for it");
}

void TcpTransport::heed_notices() {
  const auto notice = mesh_.notices.poll();
  if (!notice || notice->rank < 0 || notice->rank >= ranks() || notice->rank == rank_) return;
  const Peer& gone = peer(notice->rank);
  if (notice->kind == Notice::Kind::gave_up) {
    const std::string status = notice->status == 0 ? "" : detail::concatenate(" with exit status ", notice->status);
    fail_job(with_host(gone) + " gave up on the job" + status + kSeeItsOutput);
  }
  const std::string outstanding = outstanding_with(gone);
  fail_job(with_host(gone) + " has ended" + (outstanding.empty() ? " before the job" : outstanding) + kSeeItsOutput);
}

// An ended rank is an error only when something is still outstanding with it.
void TcpTransport::fail_if_needed(const Peer& peer) {
  const std::string outstanding = outstanding_with(peer);
  if (outstanding.empty()) return;
  heed_notices();  // they know who was the first to end
  mesh_.notices.tell({.kind = Notice::Kind::ended, .rank = peer.rank});
  fail_job(with_host(peer) + " has ended" + outstanding + ": " + peer.ended + kSeeItsOutput);
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
