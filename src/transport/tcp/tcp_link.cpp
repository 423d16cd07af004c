#include "transport/tcp/tcp_link.hpp"

#include <sys/epoll.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace axonn::tcp {
namespace {

constexpr size_t kTurnBytes = size_t{4} << 20;  // limit for reading from or writing to one peer before the next peer

}  // namespace

void Link::take(Descriptor socket) {
  socket_ = std::move(socket);
  greeted_ = sizeof(Greeting);
  watched_for_room_.reset();
}

void Link::make(Descriptor socket, const Greeting& greeting) {
  socket_ = std::move(socket);
  greeting_ = greeting;
  greeted_ = 0;
  watched_for_room_.reset();
}

void Link::watch(const Descriptor& epoll, uint64_t tag, bool for_room) {
  if (watched_for_room_ == for_room) return;
  tcp::watch(epoll, socket_.get(), for_room ? EPOLLIN | EPOLLOUT : EPOLLIN, tag);
  watched_for_room_ = for_room;
}

std::string Link::write(SendQueue& queue, Tickets& tickets) {
  int error = greet();
  for (size_t turn = kTurnBytes; error == 0 && turn > 0 && !queue.empty();) {
    Outgoing& message = queue.next();
    error = write_some(message, turn);
    if (message.sent < sizeof(Header) + message.header.bytes) continue;
    tickets.finish(message.slot);
    queue.pop();
  }
  return error == 0 || error == EAGAIN ? std::string() : error_text(error);
}

int Link::greet() {
  while (greeted_ < sizeof(Greeting)) {
    const auto* bytes = reinterpret_cast<const char*>(&greeting_);
    const ssize_t put =
        ::send(socket_.get(), bytes + greeted_, sizeof(Greeting) - greeted_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put < 0 && errno != EINTR) return errno;
    if (put > 0) greeted_ += static_cast<size_t>(put);
  }
  return 0;
}

int Link::write_some(Outgoing& message, size_t& turn) {
  const size_t in_header = std::min(message.sent, sizeof(Header));
  const size_t in_data = message.sent - in_header;
  std::array<iovec, 2> parts{
      {{reinterpret_cast<std::byte*>(&message.header) + in_header, sizeof(Header) - in_header},
       {const_cast<std::byte*>(message.data) + in_data, std::min(message.header.bytes - in_data, turn)}}};
  msghdr call{};
  call.msg_iov = parts.data();
  call.msg_iovlen = parts.size();
  const ssize_t put = ::sendmsg(socket_.get(), &call, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (put < 0) return errno == EINTR ? 0 : errno;
  message.sent += static_cast<size_t>(put);
  turn -= std::min(turn, static_cast<size_t>(put));
  return 0;
}

std::string Link::read(Inbox& inbox, size_t connection) {
  for (size_t turn = kTurnBytes; turn > 0;) {
    const auto room = inbox.room(connection);
    const ssize_t got = ::recv(socket_.get(), room.data(), std::min(room.size(), turn), MSG_DONTWAIT);
    if (got == 0) return "it has closed its connection";
    if (got < 0) return errno == EAGAIN || errno == EINTR ? std::string() : error_text(errno);
    inbox.added(connection, static_cast<size_t>(got));
    turn -= std::min(turn, static_cast<size_t>(got));
  }
  return {};
}

}  // namespace axonn::tcp
