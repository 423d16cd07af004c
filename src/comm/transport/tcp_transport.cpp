#include "comm/transport/tcp_transport.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <unordered_map>
#include <vector>

#include "axonn/core/error.hpp"
#include "comm/transport/tcp_mesh.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "comm.tcp";
constexpr const char* kSeeItsOutput = "; see that rank's own last lines";
constexpr size_t kTurnBytes = size_t{4} << 20;  // limit for reading from or writing to one peer before the next peer

enum class Kind : uint32_t { message, end_of_job };

// Precedes each message on the wire. For `end_of_job`, `bytes` is the exit status, or 0 when it is
// not known yet.
struct Header {
  uint64_t bytes = 0;
  uint32_t channel = 0;
  Kind kind = Kind::message;
};

struct Outgoing {
  Header header;
  const std::byte* data;
  size_t sent;  // bytes of header and data together
  uint32_t slot;
};

struct Posted {
  std::byte* data;
  size_t bytes;
  uint32_t slot;
};

struct Buffer {
  std::unique_ptr<std::byte[]> data;
  size_t bytes = 0;
};

// At least one of the two is empty.
struct Channel {
  std::deque<Posted> posted;
  std::deque<Buffer> unexpected;
};

// The message that is being read from a peer.
struct Incoming {
  Header header;
  size_t header_arrived = 0;
  size_t arrived = 0;
  std::byte* target = nullptr;
  Buffer buffer;  // owns `target` until a receive for the message is posted
  uint32_t slot = 0;
};

struct Peer {
  int rank = 0;
  TcpPeer link;
  std::deque<Outgoing> outgoing;
  bool waits_for_room = false;  // EPOLLOUT is armed
  std::unordered_map<uint32_t, Channel> channels;
  Incoming incoming;
  size_t posted = 0;  // receives that are not done
  std::string ended;  // why the connection ended; empty while it is open

  bool reads_body() const { return incoming.header_arrived == sizeof(Header); }
};

struct Slot {
  uint32_t generation = 0;
  bool done = false;
};

class TcpTransport final : public Transport {
 public:
  TcpTransport(int rank, std::vector<TcpPeer> links);

  std::string_view name() const override { return "tcp"; }
  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(peers_.size()); }

  Ticket send(int peer, uint32_t channel, const void* data, size_t bytes) override;
  Ticket receive(int peer, uint32_t channel, void* data, size_t bytes) override;
  bool test(Ticket ticket) override;
  void abandon(const std::string&) noexcept override { tell_end_of_job(0); }
  void abort(int exit_status) noexcept override;

 private:
  Peer& peer(int rank);
  uint32_t new_slot();
  Ticket ticket(uint32_t slot) const { return uint64_t{slots_[slot].generation} << 32 | slot; }

  void progress();
  void write(Peer& peer);
  void watch(Peer& peer, bool for_room);
  void read(Peer& peer);
  size_t read_some(Peer& peer, void* data, size_t bytes);
  void start_message(Peer& peer);
  void finish_message(Peer& peer);
  void send_to_self(uint32_t channel, const std::byte* data, size_t bytes, uint32_t slot);
  void take_over(Peer& peer, const Posted& posted);
  void end(Peer& peer, const std::string& why);
  void fail_if_needed(const Peer& peer);
  void tell_end_of_job(int exit_status) noexcept;

  int rank_;
  Descriptor epoll_;
  std::vector<Peer> peers_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  std::string failure_;  // thrown by every test() once set
};

void check_size(const Peer& peer, uint32_t channel, size_t expected, size_t sent) {
  if (expected == sent) return;
  throw InternalError(kWhere, detail::concatenate("receive of ", expected, " bytes on channel ", channel, " from rank ",
                                                  peer.rank, " meets a message of ", sent, " bytes"));
}

TcpTransport::TcpTransport(int rank, std::vector<TcpPeer> links)
    : rank_(rank), epoll_(::epoll_create1(EPOLL_CLOEXEC)), peers_(links.size()) {
  if (!epoll_.open()) throw BackendError(kWhere, detail::concatenate("epoll_create1: ", std::strerror(errno)));
  for (size_t i = 0; i < links.size(); ++i) {
    peers_[i].rank = static_cast<int>(i);
    peers_[i].link = std::move(links[i]);
    if (!peers_[i].link.socket.open()) continue;
    epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, peers_[i].link.socket.get(), &event) != 0) {
      throw BackendError(kWhere, detail::concatenate("epoll_ctl: ", std::strerror(errno)));
    }
  }
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

Transport::Ticket TcpTransport::send(int rank, uint32_t channel, const void* data, size_t bytes) {
  Peer& to = peer(rank);
  const uint32_t slot = new_slot();
  const auto* from = static_cast<const std::byte*>(data);
  if (rank == rank_) {
    send_to_self(channel, from, bytes, slot);
    return ticket(slot);
  }
  to.outgoing.push_back({Header{.bytes = bytes, .channel = channel}, from, 0, slot});
  if (!to.ended.empty()) {
    fail_if_needed(to);
  } else if (to.outgoing.size() == 1) {
    write(to);
  }
  return ticket(slot);
}

void TcpTransport::send_to_self(uint32_t channel, const std::byte* data, size_t bytes, uint32_t slot) {
  Peer& self = peer(rank_);
  auto& [posted, unexpected] = self.channels[channel];
  slots_[slot].done = true;
  if (posted.empty()) {
    unexpected.push_back({std::make_unique_for_overwrite<std::byte[]>(bytes), bytes});
    std::copy_n(data, bytes, unexpected.back().data.get());
    return;
  }
  check_size(self, channel, posted.front().bytes, bytes);
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
    check_size(from, channel, bytes, unexpected.front().bytes);
    std::copy_n(unexpected.front().data.get(), bytes, wanted.data);
    unexpected.pop_front();
    slots_[slot].done = true;
    return ticket(slot);
  }
  ++from.posted;
  const bool half_here =
      from.reads_body() && from.incoming.buffer.data != nullptr && from.incoming.header.channel == channel;
  if (half_here) {
    take_over(from, wanted);
  } else {
    posted.push_back(wanted);
  }
  if (!from.ended.empty()) fail_if_needed(from);
  return ticket(slot);
}

// A message that is arriving in a buffer continues in its receiver's memory.
void TcpTransport::take_over(Peer& peer, const Posted& posted) {
  Incoming& incoming = peer.incoming;
  check_size(peer, incoming.header.channel, posted.bytes, incoming.header.bytes);
  std::copy_n(incoming.buffer.data.get(), incoming.arrived, posted.data);
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

void TcpTransport::progress() {
  if (!failure_.empty()) throw BackendError(kWhere, failure_);
  std::array<epoll_event, 64> events;
  const int found = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  if (found < 0 && errno != EINTR)
    throw BackendError(kWhere, detail::concatenate("epoll_wait: ", std::strerror(errno)));
  for (int i = 0; i < found; ++i) {
    Peer& peer = peers_[events[static_cast<size_t>(i)].data.u64];
    const uint32_t what = events[static_cast<size_t>(i)].events;
    // Reading comes first, because messages that a rank sent before it ended still count.
    if (what & (EPOLLIN | EPOLLHUP | EPOLLERR)) read(peer);
    if (peer.ended.empty() && (what & EPOLLOUT)) write(peer);
  }
}

void TcpTransport::write(Peer& peer) {
  for (size_t turn = kTurnBytes; turn > 0 && !peer.outgoing.empty();) {
    Outgoing& message = peer.outgoing.front();
    const size_t in_header = std::min(message.sent, sizeof(Header));
    const size_t in_data = message.sent - in_header;
    std::array<iovec, 2> parts{
        {{reinterpret_cast<std::byte*>(&message.header) + in_header, sizeof(Header) - in_header},
         {const_cast<std::byte*>(message.data) + in_data, std::min(message.header.bytes - in_data, turn)}}};
    msghdr call{};
    call.msg_iov = parts.data();
    call.msg_iovlen = parts.size();
    const ssize_t put = ::sendmsg(peer.link.socket.get(), &call, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) break;
    if (put < 0) return end(peer, std::strerror(errno));
    message.sent += static_cast<size_t>(put);
    turn -= std::min(turn, static_cast<size_t>(put));
    if (message.sent < sizeof(Header) + message.header.bytes) continue;
    slots_[message.slot].done = true;
    peer.outgoing.pop_front();
  }
  watch(peer, !peer.outgoing.empty());
}

void TcpTransport::watch(Peer& peer, bool for_room) {
  if (peer.waits_for_room == for_room) return;
  epoll_event event{.events = for_room ? EPOLLIN | EPOLLOUT : EPOLLIN,
                    .data = {.u64 = static_cast<uint64_t>(peer.rank)}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, peer.link.socket.get(), &event);
  peer.waits_for_room = for_room;
}

void TcpTransport::read(Peer& peer) {
  Incoming& incoming = peer.incoming;
  for (size_t turn = kTurnBytes; turn > 0;) {
    size_t got = 0;
    if (!peer.reads_body()) {
      auto* header = reinterpret_cast<std::byte*>(&incoming.header);
      got = read_some(peer, header + incoming.header_arrived, sizeof(Header) - incoming.header_arrived);
      incoming.header_arrived += got;
      if (got > 0 && peer.reads_body()) start_message(peer);
    } else {
      got =
          read_some(peer, incoming.target + incoming.arrived, std::min(incoming.header.bytes - incoming.arrived, turn));
      incoming.arrived += got;
    }
    if (got == 0) return;
    if (peer.reads_body() && incoming.arrived == incoming.header.bytes) finish_message(peer);
    turn -= std::min(turn, got);
  }
}

// Returns 0 when nothing more has arrived or the connection has ended.
size_t TcpTransport::read_some(Peer& peer, void* data, size_t bytes) {
  if (!peer.ended.empty()) return 0;
  const ssize_t got = ::recv(peer.link.socket.get(), data, bytes, MSG_DONTWAIT);
  if (got > 0) return static_cast<size_t>(got);
  if (got == 0) {
    end(peer, "it has closed its connection");
  } else if (errno != EAGAIN && errno != EINTR) {
    end(peer, std::strerror(errno));
  }
  return 0;
}

void TcpTransport::start_message(Peer& peer) {
  Incoming& incoming = peer.incoming;
  if (incoming.header.kind == Kind::end_of_job) {
    const auto status = incoming.header.bytes;
    failure_ =
        detail::concatenate("rank ", peer.rank, " (", peer.link.host, ") gave up on the job",
                            status == 0 ? std::string() : " with exit status " + std::to_string(status), kSeeItsOutput);
    throw BackendError(kWhere, failure_);
  }
  incoming.arrived = 0;
  auto& posted = peer.channels[incoming.header.channel].posted;
  if (posted.empty()) {
    incoming.buffer = {std::make_unique_for_overwrite<std::byte[]>(incoming.header.bytes), incoming.header.bytes};
    incoming.target = incoming.buffer.data.get();
    return;
  }
  check_size(peer, incoming.header.channel, posted.front().bytes, incoming.header.bytes);
  incoming.target = posted.front().data;
  incoming.slot = posted.front().slot;
  posted.pop_front();
}

void TcpTransport::finish_message(Peer& peer) {
  Incoming& incoming = peer.incoming;
  if (incoming.buffer.data != nullptr) {
    peer.channels[incoming.header.channel].unexpected.push_back(std::move(incoming.buffer));
  } else {
    slots_[incoming.slot].done = true;
    --peer.posted;
  }
  incoming = {};
}

void TcpTransport::end(Peer& peer, const std::string& why) {
  peer.ended = why;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.link.socket.get(), nullptr);
  peer.link.socket.close();
  fail_if_needed(peer);
}

// An ended rank is an error only when something is still outstanding with it.
void TcpTransport::fail_if_needed(const Peer& peer) {
  if (peer.posted == 0 && peer.outgoing.empty()) return;
  failure_ = detail::concatenate("rank ", peer.rank, " (", peer.link.host, ") has ended while rank ", rank_,
                                 " waits for ", peer.posted, " messages from it and has ", peer.outgoing.size(),
                                 " for it: ", peer.ended, kSeeItsOutput);
  throw BackendError(kWhere, failure_);
}

void TcpTransport::tell_end_of_job(int exit_status) noexcept {
  const Header header{.bytes = static_cast<uint64_t>(exit_status), .kind = Kind::end_of_job};
  for (Peer& peer : peers_) {
    if (!peer.link.socket.open()) continue;
    const bool between_messages = peer.outgoing.empty() || peer.outgoing.front().sent == 0;
    if (between_messages) ::send(peer.link.socket.get(), &header, sizeof header, MSG_NOSIGNAL | MSG_DONTWAIT);
    // A rank that waits for the rest of a message sees the end of the connection.
    ::shutdown(peer.link.socket.get(), SHUT_WR);
  }
}

void TcpTransport::abort(int exit_status) noexcept {
  const int status = exit_status == 0 ? 1 : exit_status;
  tell_end_of_job(status);
  ::_exit(status);
}

}  // namespace

std::unique_ptr<Transport> make_tcp_transport(int rank, int ranks, MeetingPlace& meeting_place,
                                              std::chrono::milliseconds patience) {
  const TcpMeshOptions options{.rank = rank, .ranks = ranks, .meeting_place = &meeting_place, .patience = patience};
  return std::make_unique<TcpTransport>(rank, connect_tcp_mesh(options));
}

}  // namespace axonn
