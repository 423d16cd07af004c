#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "axonn/core/error.hpp"
#include "transport/tcp/tcp_address.hpp"

namespace axonn {

// An open file descriptor; the destructor closes it.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void close() { Descriptor closing(std::move(*this)); }

 private:
  int fd_;
};

// The functions below throw BackendError with the failing call's text, unless they say otherwise.
namespace tcp {

inline constexpr const char* kWhere = "comm.tcp";

template <typename... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw BackendError(kWhere, detail::concatenate(parts...));
}

std::string error_text(int error);

// For a call that makes a descriptor. A full table of files is named with its cure.
[[noreturn]] void fail_to_open(const char* call, int error);

class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds patience) : at_(std::chrono::steady_clock::now() + patience) {}
  bool passed() const { return remaining().count() <= 0; }
  std::chrono::milliseconds remaining() const {
    return std::chrono::ceil<std::chrono::milliseconds>(at_ - std::chrono::steady_clock::now());
  }
  Deadline at_most(std::chrono::milliseconds patience) const { return Deadline(std::min(remaining(), patience)); }

 private:
  std::chrono::steady_clock::time_point at_;
};

// An IPv4 address also where the socket takes both kinds, and so gives it as an IPv6 one.
SocketAddress local_address(int fd);
SocketAddress peer_address(int fd);

// Every interface, over IPv6 and IPv4 where this host has both.
SocketAddress any_interface(int port);

Descriptor listen_at(const SocketAddress& address);

// Starts to connect without blocking. Returns a closed descriptor and sets `problem` on failure.
Descriptor start_connect(const SocketAddress& address, std::string& problem);

// Waits for the connection. Returns a closed descriptor and sets `problem` on failure.
Descriptor connect_once(const SocketAddress& address, const Deadline& deadline, std::string& problem);

// The error of an attempt to connect that has ended; 0 when it is connected.
int connect_error(int fd);

// False after the deadline.
bool wait_for(int fd, short events, const Deadline& deadline);

// Both return false when the other side has closed, on an error, and after the deadline.
bool read_all(int fd, void* data, size_t bytes, const Deadline& deadline);
bool write_all(int fd, const void* data, size_t bytes, const Deadline& deadline);

// For a connection that carries messages: no Nagle's delay, and little data in the system that is
// not sent yet, so that an urgent message does not wait behind it. Keep-alive probes end it when
// the other host has been silent for `silence`.
void set_message_options(int fd, std::chrono::milliseconds silence);

// For a connection that is idle until the job ends. The system sends no probes while data waits for
// an acknowledgement: then only such an idle connection notices that a host has vanished.
// (TCP_USER_TIMEOUT would also end connections to a live receiver that does not read.)
void set_notice_options(int fd, std::chrono::milliseconds silence);

// Raises this process's limit of open files as far as it may.
void raise_file_limit() noexcept;

// An epoll descriptor, and a call that adds `fd` to it.
Descriptor make_epoll();
void watch(const Descriptor& epoll, int fd, uint32_t events, uint64_t tag);

}  // namespace tcp
}  // namespace axonn
