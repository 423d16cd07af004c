#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace axonn::tcp {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  int port() const;
  void set_port(int port);
  void set_any_interface();
  bool is_loopback() const;
  std::string host() const;  // numeric
};

// An address in the table of start-up: IPv4 or IPv6, in network byte order.
struct PackedAddress {
  std::array<uint8_t, 16> host{};
  uint16_t port = 0;
  uint16_t family = 0;
};
PackedAddress pack(const SocketAddress& address);
SocketAddress unpack(const PackedAddress& packed);

// ::ffff:10.0.0.1 is 10.0.0.1
SocketAddress unmapped(const SocketAddress& address);

// Whether `name` means this host only: "localhost", "::1", "127...".
bool names_loopback(const std::string& name);

// Returns nothing and sets `problem` when the name has no address (yet).
std::vector<SocketAddress> resolve(const std::string& host, int port, std::string& problem);

}  // namespace axonn::tcp
