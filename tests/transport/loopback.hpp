#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "transport/tcp/tcp_socket.hpp"
#include "core/free_port.hpp"

namespace axonn {

inline sockaddr_in loopback_address(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A connection to a port of this host; closed when nobody listens there.
inline Descriptor try_loopback(int port) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  const sockaddr_in address = loopback_address(port);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) socket.close();
  return socket;
}

}  // namespace axonn
