#include "scale_start_up.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "axonn/core/error.hpp"
#include "transport/loopback.hpp"
#include "transport/rank_tree.hpp"
#include "transport/tcp/tcp_mesh.hpp"

namespace axonn::bench {
namespace {

using namespace tcp;

constexpr std::chrono::seconds kPatience{300};

// An address of this host for each rank, so that there are ports enough for all.
sockaddr_in address_of(int rank) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + static_cast<uint32_t>(rank) / 8);
  return address;
}

// The addresses at which ranks 0 and 1 find those of the others to which they pass the table on.
class Others {
 public:
  Others() : door_(listen_at(any_interface(0)), secret_of(kSecret)) {}

  // As a rank: says to rank 0 that it listens here, and hears that it is welcome.
  void join(int rank, int ranks, int port) const {
    const Descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
    const sockaddr_in own = address_of(rank), rank_0 = loopback_address(port);
    const Greeting words{.secret = secret_of(kSecret), .rank = rank, .ranks = ranks, .port = door_.port()};
    Answer answer{.verdict = Verdict::taken};
    const Deadline deadline(kPatience);
    const bool welcome = ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0 &&
                         ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&rank_0), sizeof rank_0) == 0 &&
                         write_all(socket.get(), &words, sizeof words, deadline) &&
                         read_all(socket.get(), &answer, sizeof answer, deadline) && answer.verdict == Verdict::welcome;
    if (!welcome) throw BackendError("bench.scale", detail::concatenate("rank ", rank, " could not join"));
  }

  // Reads the table on every connection that comes.
  void take_tables(int connections, int ranks) {
    std::vector<PackedAddress> table(static_cast<size_t>(ranks));
    for (const Deadline deadline(kPatience); connections > 0 && !deadline.passed();) {
      auto arrival = door_.next();
      if (!arrival) {
        wait_for(door_.fd(), POLLIN, deadline.at_most(std::chrono::milliseconds(50)));
        continue;
      }
      read_all(arrival->socket.get(), table.data(), table.size() * sizeof(PackedAddress), deadline);
      open_.push_back(std::move(arrival->socket));
      --connections;
    }
  }

 private:
  Door door_;
  std::vector<Descriptor> open_;
};

}  // namespace

StartUpBytes start_up_bytes(int ranks) {
  const auto begin = std::chrono::steady_clock::now();
  const int port = free_port();
  const auto start = [&](int rank) {
    return std::async(std::launch::async, [=] {
      return connect_tcp_mesh(
          {.rank = rank, .ranks = ranks, .meeting_place = meet_at("127.0.0.1", port, kSecret), .patience = kPatience});
    });
  };
  auto rank_0 = start(0), rank_1 = start(1);
  Others others;
  while (!try_loopback(port).open()) std::this_thread::yield();
  for (int rank = 2; rank < ranks; ++rank) others.join(rank, ranks, port);
  const auto children = children_of(0, ranks).size() - 1 + children_of(1, ranks).size();
  others.take_tables(static_cast<int>(children), ranks);
  const TcpMesh mesh_0 = rank_0.get(), mesh_1 = rank_1.get();
  return {mesh_0.bytes_sent, mesh_1.bytes_sent,
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
}

}  // namespace axonn::bench
