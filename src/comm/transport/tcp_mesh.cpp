#include "comm/transport/tcp_mesh.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>

#include "axonn/core/error.hpp"

namespace axonn {

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

namespace {

constexpr const char* kWhere = "comm.tcp";
constexpr std::chrono::milliseconds kRetryPause{50};
constexpr std::chrono::milliseconds kGreetingPatience{5000};  // for a connection that sends no greeting

template <typename... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  throw BackendError(kWhere, detail::concatenate(parts...));
}

std::string error_text(int error) { return std::strerror(error); }

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

bool wait_for(int fd, short events, const Deadline& deadline) {
  while (!deadline.passed()) {
    pollfd entry{fd, events, 0};
    const int found = ::poll(&entry, 1, static_cast<int>(deadline.remaining().count()));
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) fail("poll: ", error_text(errno));
  }
  return false;
}

// Both return false when the other side has closed, on an error, and after the deadline.
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

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }

  bool is_v6() const { return storage.ss_family == AF_INET6; }
  sockaddr_in& v4() { return reinterpret_cast<sockaddr_in&>(storage); }
  sockaddr_in6& v6() { return reinterpret_cast<sockaddr_in6&>(storage); }

  // In network byte order; IPv4 and IPv6 keep it in different places.
  in_port_t& port_field() { return is_v6() ? v6().sin6_port : v4().sin_port; }
  int port() { return ntohs(port_field()); }
  void set_port(int port) { port_field() = htons(static_cast<uint16_t>(port)); }
  void set_any_interface() {
    if (is_v6()) {
      v6().sin6_addr = in6addr_any;
    } else {
      v4().sin_addr.s_addr = htonl(INADDR_ANY);
    }
  }
  std::string host() const {
    std::array<char, NI_MAXHOST> text{};
    const int error = ::getnameinfo(get(), size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
    return error == 0 ? text.data() : "unknown address";
  }
};

SocketAddress local_address(int fd) {
  SocketAddress address;
  if (::getsockname(fd, address.get(), &address.size) != 0) fail("getsockname: ", error_text(errno));
  return address;
}

std::string peer_host(int fd) {
  SocketAddress address;
  return ::getpeername(fd, address.get(), &address.size) == 0 ? address.host() : "unknown address";
}

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

// Returns nothing and sets `problem` when the name has no address (yet).
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

Descriptor listen_at(SocketAddress address, int backlog) {
  Descriptor listener(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (!listener.open()) fail("socket: ", error_text(errno));
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(listener.get(), address.get(), address.size) != 0 || ::listen(listener.get(), backlog) != 0) {
    fail("cannot listen at ", address.host(), " port ", address.port(), ": ", error_text(errno),
         "; set MASTER_PORT to a free port");
  }
  return listener;
}

// Returns a closed descriptor and sets `problem` when this attempt failed.
Descriptor connect_once(const SocketAddress& address, const Deadline& deadline, std::string& problem) {
  Descriptor socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.open()) fail("socket: ", error_text(errno));
  int error = ::connect(socket.get(), address.get(), address.size) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    socklen_t size = sizeof error;
    error = ETIMEDOUT;
    if (wait_for(socket.get(), POLLOUT, deadline)) ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error == 0) return socket;
  problem = error_text(error);
  return Descriptor();
}

void set_options(int fd) {
  const auto set = [fd](int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 6);
}

struct Greeting {
  std::array<char, 8> magic{'a', 'x', 'o', 'n', 'n', 't', 'c', '1'};
  int32_t rank = 0;
  int32_t ranks = 0;
  int32_t port = 0;  // where the sender listens
};

struct Listener {
  std::array<char, 64> host{};
  int32_t port = 0;
};

class Mesh {
 public:
  explicit Mesh(const TcpMeshOptions& options)
      : options_(options), deadline_(options.patience), peers_(static_cast<size_t>(options.ranks)) {}

  void gather();
  void join();
  std::vector<TcpPeer> take() { return std::move(peers_); }

 private:
  Descriptor connect_to_rank_zero();
  Descriptor connect_to(int rank, const std::string& host, int port);
  Descriptor try_hosts(const std::vector<std::string>& hosts, int port, std::string& problem);
  Greeting accept_one(const Descriptor& listener);
  void accept_ranks_above(int rank, const Descriptor& listener, std::vector<Listener>* table);
  TcpPeer& peer(int rank) { return peers_.at(static_cast<size_t>(rank)); }

  TcpMeshOptions options_;
  Deadline deadline_;
  std::vector<TcpPeer> peers_;
};

// Returns a closed descriptor and sets `problem` when none can be reached now.
Descriptor Mesh::try_hosts(const std::vector<std::string>& hosts, int port, std::string& problem) {
  for (const std::string& host : hosts)
    for (const auto& address : resolve(host, port, problem)) {
      auto socket = connect_once(address, deadline_.at_most(kGreetingPatience), problem);
      if (!socket.open()) continue;
      set_options(socket.get());
      return socket;
    }
  return Descriptor();
}

Descriptor Mesh::connect_to(int rank, const std::string& host, int port) {
  std::string problem = "no attempt was made";
  while (!deadline_.passed()) {
    if (auto socket = try_hosts({host}, port, problem); socket.open()) return socket;
    std::this_thread::sleep_for(kRetryPause);
  }
  fail("rank ", options_.rank, " of ", options_.ranks, " could not reach rank ", rank, " at ", host, " port ", port,
       " in ", options_.patience.count() / 1000.0, " s: ", problem);
}

// Where rank 0 is may become known only now, or change: a file may be of an earlier job.
Descriptor Mesh::connect_to_rank_zero() {
  MeetingPlace& place = *options_.meeting_place;
  std::string problem = "rank 0 has not said where it is";
  while (!deadline_.passed()) {
    if (const auto point = place.find())
      if (auto socket = try_hosts(point->hosts, point->port, problem); socket.open()) return socket;
    std::this_thread::sleep_for(kRetryPause);
  }
  fail("rank ", options_.rank, " of ", options_.ranks, " could not reach rank 0 at ", place.name(), " in ",
       options_.patience.count() / 1000.0, " s: ", problem, "; ", place.need());
}

// Drops connections that do not greet as a rank of this job.
Greeting Mesh::accept_one(const Descriptor& listener) {
  while (wait_for(listener.get(), POLLIN, deadline_)) {
    Descriptor socket(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    Greeting greeting;
    if (!socket.open() || !read_all(socket.get(), &greeting, sizeof greeting, deadline_.at_most(kGreetingPatience)))
      continue;
    if (greeting.magic != Greeting{}.magic) continue;
    AXONN_CHECK(greeting.ranks == options_.ranks && greeting.rank > 0 && greeting.rank < options_.ranks, kWhere,
                "a process with RANK ", greeting.rank, " and WORLD_SIZE ", greeting.ranks, " came to rank ",
                options_.rank, " of a job of ", options_.ranks,
                "; need the same WORLD_SIZE for all and another MASTER_PORT for another job");
    AXONN_CHECK(!peer(greeting.rank).socket.open(), kWhere, "two processes say that they are rank ", greeting.rank,
                " of ", options_.ranks, "; need a different RANK for each");
    set_options(socket.get());
    peer(greeting.rank).host = peer_host(socket.get());
    peer(greeting.rank).socket = std::move(socket);
    return greeting;
  }
  std::string missing;
  for (int rank = options_.rank + 1; rank < options_.ranks; ++rank) {
    if (!peer(rank).socket.open()) missing += " " + std::to_string(rank);
  }
  fail("rank ", options_.rank, " of ", options_.ranks, " waited ", options_.patience.count() / 1000.0,
       " s in vain for ranks", missing);
}

void Mesh::accept_ranks_above(int rank, const Descriptor& listener, std::vector<Listener>* table) {
  for (int count = rank + 1; count < options_.ranks; ++count) {
    const Greeting greeting = accept_one(listener);
    if (table == nullptr) continue;
    auto& entry = table->at(static_cast<size_t>(greeting.rank));
    peer(greeting.rank).host.copy(entry.host.data(), entry.host.size() - 1);
    entry.port = greeting.port;
  }
}

// Rank 0 collects the addresses at which all ranks listen, then sends them to all.
void Mesh::gather() {
  MeetingPlace& place = *options_.meeting_place;
  const MeetingPoint wanted = place.wanted();
  SocketAddress address;
  address.storage.ss_family = AF_INET;
  address.size = sizeof(sockaddr_in);
  address.set_port(wanted.port);
  if (!wanted.hosts.empty()) {
    std::string problem;
    const auto addresses = resolve(wanted.hosts.front(), wanted.port, problem);
    AXONN_CHECK(!addresses.empty(), kWhere, "MASTER_ADDR '", wanted.hosts.front(), "' has no address: ", problem);
    address = addresses.front();
  }
  if (wanted.hosts.empty() || !is_loopback(wanted.hosts.front())) address.set_any_interface();
  const Descriptor listener = listen_at(address, options_.ranks);
  place.publish(local_address(listener.get()).port());

  std::vector<Listener> table(peers_.size());
  accept_ranks_above(0, listener, &table);
  for (int rank = 1; rank < options_.ranks; ++rank) {
    if (!write_all(peer(rank).socket.get(), table.data(), table.size() * sizeof(Listener), deadline_)) {
      fail("rank ", rank, " (", peer(rank).host, ") ended during start-up");
    }
  }
  place.close();
}

// Any other rank connects to rank 0, then to the ranks below it, and accepts those above it.
void Mesh::join() {
  peer(0).socket = connect_to_rank_zero();
  peer(0).host = peer_host(peer(0).socket.get());
  SocketAddress address = local_address(peer(0).socket.get());
  if (!is_loopback(address.host())) address.set_any_interface();
  address.set_port(0);
  const Descriptor listener = listen_at(address, options_.ranks);

  Greeting greeting{.rank = options_.rank, .ranks = options_.ranks, .port = local_address(listener.get()).port()};
  std::vector<Listener> table(peers_.size());
  if (!write_all(peer(0).socket.get(), &greeting, sizeof greeting, deadline_) ||
      !read_all(peer(0).socket.get(), table.data(), table.size() * sizeof(Listener), deadline_)) {
    fail("rank ", options_.rank, " of ", options_.ranks, " reached rank 0 at ", options_.meeting_place->name(),
         deadline_.passed() ? ", but other ranks have not come in time"
                            : ", but it closed the connection: see its own message");
  }
  for (int rank = 1; rank < options_.rank; ++rank) {
    const auto& entry = table.at(static_cast<size_t>(rank));
    // A rank that rank 0 sees at a loopback address is on rank 0's host.
    const std::string host = is_loopback(entry.host.data()) ? peer(0).host : entry.host.data();
    peer(rank).socket = connect_to(rank, host, entry.port);
    peer(rank).host = host;
    if (!write_all(peer(rank).socket.get(), &greeting, sizeof greeting, deadline_)) {
      fail("rank ", rank, " (", host, ") ended during start-up");
    }
  }
  accept_ranks_above(options_.rank, listener, nullptr);
}

}  // namespace

std::vector<TcpPeer> connect_tcp_mesh(const TcpMeshOptions& options) {
  AXONN_CHECK(options.ranks >= 1 && options.rank >= 0 && options.rank < options.ranks, kWhere,
              "need 0 <= RANK < WORLD_SIZE, got RANK ", options.rank, " and WORLD_SIZE ", options.ranks);
  Mesh mesh(options);
  if (options.ranks > 1) options.rank == 0 ? mesh.gather() : mesh.join();
  return mesh.take();
}

}  // namespace axonn
