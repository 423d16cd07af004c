#include "transport/tcp/tcp_notices.hpp"

#include <sys/epoll.h>

#include <cerrno>

namespace axonn::tcp {

Notices::Notices() : epoll_(make_epoll()) {}

void Notices::add(int rank, Descriptor socket, std::chrono::milliseconds silence) {
  set_notice_options(socket.get(), silence);
  watch(epoll_, socket.get(), EPOLLIN, 0);
  neighbours_.push_back({.rank = rank, .socket = std::move(socket)});
}

std::optional<Notice> Notices::poll() {
  epoll_event event;
  if (::epoll_wait(epoll_.get(), &event, 1, 0) <= 0) return std::nullopt;
  for (Neighbour& neighbour : neighbours_) {
    if (!neighbour.socket.open()) continue;
    const auto notice = read(neighbour);
    if (!notice) continue;
    tell(*notice);
    return notice;
  }
  return std::nullopt;
}

std::optional<Notice> Notices::read(Neighbour& neighbour) {
  auto* bytes = reinterpret_cast<char*>(&neighbour.notice);
  const ssize_t got =
      ::recv(neighbour.socket.get(), bytes + neighbour.arrived, sizeof(Notice) - neighbour.arrived, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (got <= 0) {
    neighbour.socket.close();
    return Notice{.kind = Notice::Kind::ended, .rank = neighbour.rank};
  }
  neighbour.arrived += static_cast<size_t>(got);
  if (neighbour.arrived < sizeof(Notice)) return std::nullopt;
  neighbour.arrived = 0;
  if (neighbour.notice.kind != Notice::Kind::leaves) return neighbour.notice;
  neighbour.socket.close();
  return std::nullopt;
}

void Notices::tell(const Notice& notice) noexcept {
  if (!has_sent_) send_to_all(notice);
  has_sent_ = true;
}

void Notices::leave(int rank) noexcept {
  if (!has_sent_) send_to_all({.kind = Notice::Kind::leaves, .rank = rank});
  has_sent_ = true;
}

// A notice always finds room: it is the only one that ever goes over its connection.
void Notices::send_to_all(const Notice& notice) noexcept {
  for (Neighbour& neighbour : neighbours_) {
    if (neighbour.socket.open()) {
      ::send(neighbour.socket.get(), &notice, sizeof notice, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }
}

}  // namespace axonn::tcp
