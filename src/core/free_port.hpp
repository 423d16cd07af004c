#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "axonn/core/error.hpp"

namespace axonn {

// A port of TCP that nobody has on any address of this host. It is below those that the kernel
// gives to connections: one of them could be gone again before a job listens there.
inline int free_port() {
  int first_given = 32768;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first_given;
  std::random_device random;
  std::uniform_int_distribution<int> ports(first_given / 2, first_given - 1);
  for (int attempt = 0; attempt < 100; ++attempt) {
    const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(ports(random)));
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    const bool found = probe >= 0 && ::bind(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    if (probe >= 0) ::close(probe);
    if (found) return ntohs(address.sin_port);
  }
  throw BackendError("core.free_port", "no free port of TCP on this host; end programs that listen");
}

}  // namespace axonn
