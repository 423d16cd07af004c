#include "transport/tcp/tcp_socket.hpp"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace axonn {

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

namespace tcp {
namespace {

constexpr int kUnsentBytes = 32 << 10;  // in the system, per connection for messages

void set(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); }

// The first probe after a third of `silence`, then six at most.
void set_keep_alive(int fd, std::chrono::milliseconds silence) {
  const int seconds = static_cast<int>(std::chrono::ceil<std::chrono::seconds>(silence).count());
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, seconds / 3));
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds / 9));
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 6);
}

}  // namespace

std::string error_text(int error) { return std::strerror(error); }

void fail_to_open(const char* call, int error) {
  rlimit limit{};
  const bool full = error == EMFILE && ::getrlimit(RLIMIT_NOFILE, &limit) == 0;
  fail(call, ": ", error_text(error),
       full ? detail::concatenate("; this process may have ", limit.rlim_cur,
                                  " open files: give it more with 'ulimit -n', or with its hard limit")
            : std::string());
}

SocketAddress local_address(int fd) {
  SocketAddress address;
  if (::getsockname(fd, address.get(), &address.size) != 0) fail("getsockname: ", error_text(errno));
  return unmapped(address);
}

SocketAddress peer_address(int fd) {
  SocketAddress address;
  if (::getpeername(fd, address.get(), &address.size) != 0) address = SocketAddress{};
  return unmapped(address);
}

SocketAddress any_interface(int port) {
  const bool has_both = Descriptor(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)).open();
  SocketAddress address;
  address.storage.ss_family = has_both ? AF_INET6 : AF_INET;
  address.size = has_both ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  address.set_any_interface();
  address.set_port(port);
  return address;
}

Descriptor listen_at(const SocketAddress& address) {
  Descriptor listener(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener.open()) fail_to_open("socket", errno);
  set(listener.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6) set(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(listener.get(), address.get(), address.size) != 0 || ::listen(listener.get(), SOMAXCONN) != 0) {
    const char* cure = errno == EADDRINUSE      ? "; set MASTER_PORT to a free port"
                       : errno == EADDRNOTAVAIL ? "; MASTER_ADDR must be an address of rank 0's host"
                       : errno == EACCES        ? "; set MASTER_PORT to at least 1024"
                                                : "";
    fail("cannot listen at ", address.host(), " port ", address.port(), ": ", error_text(errno), cure);
  }
  return listener;
}

Descriptor start_connect(const SocketAddress& address, std::string& problem) {
  Descriptor socket(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.open()) fail_to_open("socket", errno);
  if (::connect(socket.get(), address.get(), address.size) == 0 || errno == EINPROGRESS) return socket;
  problem = error_text(errno);
  return Descriptor();
}

Descriptor connect_once(const SocketAddress& address, const Deadline& deadline, std::string& problem) {
  Descriptor socket = start_connect(address, problem);
  if (!socket.open()) return socket;
  const int error = wait_for(socket.get(), POLLOUT, deadline) ? connect_error(socket.get()) : ETIMEDOUT;
  if (error == 0) return socket;
  problem = error_text(error);
  return Descriptor();
}

int connect_error(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

bool wait_for(int fd, short events, const Deadline& deadline) {
  while (!deadline.passed()) {
    pollfd entry{fd, events, 0};
    const int found = ::poll(&entry, 1, static_cast<int>(deadline.remaining().count()));
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) fail("poll: ", error_text(errno));
  }
  return false;
}

bool read_all(int fd, void* data, size_t bytes, const Deadline& deadline) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::recv(fd, at, bytes, 0);
    if (got > 0) {
      at += got;
      bytes -= static_cast<size_t>(got);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      return false;
    } else if (!wait_for(fd, POLLIN, deadline)) {
      return false;
    }
  }
  return true;
}

bool write_all(int fd, const void* data, size_t bytes, const Deadline& deadline) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = ::send(fd, at, bytes, MSG_NOSIGNAL);
    if (put > 0) {
      at += put;
      bytes -= static_cast<size_t>(put);
    } else if (errno != EAGAIN && errno != EINTR) {
      return false;
    } else if (!wait_for(fd, POLLOUT, deadline)) {
      return false;
    }
  }
  return true;
}

void set_message_options(int fd, std::chrono::milliseconds silence) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kUnsentBytes);
  set_keep_alive(fd, silence);
}

void set_notice_options(int fd, std::chrono::milliseconds silence) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_keep_alive(fd, silence);
}

void raise_file_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Descriptor make_epoll() {
  Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.open()) fail_to_open("epoll_create1", errno);
  return epoll;
}

void watch(const Descriptor& epoll, int fd, uint32_t events, uint64_t tag) {
  epoll_event event{.events = events, .data = {.u64 = tag}};
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0) return;
  if (errno != EEXIST || ::epoll_ctl(epoll.get(), EPOLL_CTL_MOD, fd, &event) != 0) {
    fail("epoll_ctl: ", error_text(errno));
  }
}

}  // namespace tcp
}  // namespace axonn
