#include "transport/tcp/tcp_address.hpp"

#include <netdb.h>

#include <cstring>
#include <memory>

namespace axonn::tcp {
namespace {

sockaddr_in& v4(SocketAddress& address) { return reinterpret_cast<sockaddr_in&>(address.storage); }
sockaddr_in6& v6(SocketAddress& address) { return reinterpret_cast<sockaddr_in6&>(address.storage); }
const sockaddr_in& v4(const SocketAddress& address) { return reinterpret_cast<const sockaddr_in&>(address.storage); }
const sockaddr_in6& v6(const SocketAddress& address) { return reinterpret_cast<const sockaddr_in6&>(address.storage); }

}  // namespace

int SocketAddress::port() const { return ntohs(family() == AF_INET6 ? v6(*this).sin6_port : v4(*this).sin_port); }

void SocketAddress::set_port(int port) {
  (family() == AF_INET6 ? v6(*this).sin6_port : v4(*this).sin_port) = htons(static_cast<uint16_t>(port));
}

void SocketAddress::set_any_interface() {
  if (family() == AF_INET6) {
    v6(*this).sin6_addr = in6addr_any;
  } else {
    v4(*this).sin_addr.s_addr = htonl(INADDR_ANY);
  }
}

bool SocketAddress::is_loopback() const {
  return family() == AF_INET6 ? IN6_IS_ADDR_LOOPBACK(&v6(*this).sin6_addr)
                              : ntohl(v4(*this).sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

std::string SocketAddress::host() const {
  std::array<char, NI_MAXHOST> text{};
  const int error = ::getnameinfo(get(), size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? text.data() : "unknown address";
}

PackedAddress pack(const SocketAddress& address) {
  PackedAddress packed{.family = static_cast<uint16_t>(address.family())};
  packed.port = htons(static_cast<uint16_t>(address.port()));
  if (address.family() == AF_INET6) {
    std::memcpy(packed.host.data(), &v6(address).sin6_addr, 16);
  } else {
    std::memcpy(packed.host.data(), &v4(address).sin_addr, 4);
  }
  return packed;
}

SocketAddress unpack(const PackedAddress& packed) {
  SocketAddress address;
  address.storage.ss_family = packed.family;
  if (packed.family == AF_INET6) {
    std::memcpy(&v6(address).sin6_addr, packed.host.data(), 16);
  } else {
    std::memcpy(&v4(address).sin_addr, packed.host.data(), 4);
  }
  address.size = packed.family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  address.set_port(ntohs(packed.port));
  return address;
}

SocketAddress unmapped(const SocketAddress& address) {
  if (address.family() != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6(address).sin6_addr)) return address;
  SocketAddress result;
  result.storage.ss_family = AF_INET;
  result.size = sizeof(sockaddr_in);
  std::memcpy(&v4(result).sin_addr, &v6(address).sin6_addr.s6_addr[12], 4);
  result.set_port(address.port());
  return result;
}

bool names_loopback(const std::string& name) {
  return name == "localhost" || name == "::1" || name.starts_with("127.");
}

std::vector<SocketAddress> resolve(const std::string& host, int port, std::string& problem) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &list); error != 0) {
    problem = ::gai_strerror(error);
    return {};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  std::vector<SocketAddress> found;
  for (const auto* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    auto& address = found.emplace_back();
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.size = entry->ai_addrlen;
    address.set_port(port);
  }
  return found;
}

}  // namespace axonn::tcp
