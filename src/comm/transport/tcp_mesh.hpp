#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "comm/startup/meeting_place.hpp"

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

// A connection to one rank: non-blocking and without Nagle's delay. Keep-alive probes detect a lost
// host within 90 s.
struct TcpPeer {
  Descriptor socket;
  std::string host;  // numeric, for reports
};

struct TcpMeshOptions {
  int rank = 0;
  int ranks = 1;
  MeetingPlace* meeting_place = nullptr;
  std::chrono::milliseconds patience = std::chrono::seconds(60);
};

// Start-up of make_tcp_transport(). Returns one entry per rank; this rank's entry has no socket.
std::vector<TcpPeer> connect_tcp_mesh(const TcpMeshOptions& options);

}  // namespace axonn
