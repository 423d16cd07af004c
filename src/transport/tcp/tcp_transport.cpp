#include "transport/tcp/tcp_transport.hpp"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <utility>

#include "axonn/core/log.hpp"
#include "transport/tcp/tcp_transport_impl.hpp"

namespace axonn {
namespace tcp {
namespace {

constexpr uint64_t kDoorTag = ~uint64_t{0}, kNoticesTag = kDoorTag - 1;  // others: 2 * rank + index of the link

}  // namespace

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

}  // namespace tcp

std::unique_ptr<Transport> make_tcp_transport(TcpMesh mesh) {
  return std::make_unique<tcp::TcpTransport>(std::move(mesh));
}

std::unique_ptr<Transport> make_tcp_transport(const TcpOptions& options) {
  return make_tcp_transport(connect_tcp_mesh(options));
}

}  // namespace axonn
