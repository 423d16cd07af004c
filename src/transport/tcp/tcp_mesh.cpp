#include "transport/tcp/tcp_mesh.hpp"

#include <utility>

#include "transport/rank_tree.hpp"
#include "transport/tcp/tcp_start.hpp"

namespace axonn {
namespace tcp {

Greeting Start::greeting(Purpose purpose) const {
  return {.secret = secret_of(mesh_.secret),
          .rank = options_.rank,
          .ranks = options_.ranks,
          .port = mesh_.door->port(),
          .purpose = purpose};
}

bool Start::send(const Descriptor& socket, const void* data, size_t bytes) {
  mesh_.bytes_sent += bytes;
  return write_all(socket.get(), data, bytes, deadline_);
}

// Passes the table on to the children.
void Start::spread() {
  // A rank that rank 0 sees at a loopback address is on rank 0's host. If this rank is too, it sees
  // the other one there as well.
  for (int rank = 0; rank < options_.ranks; ++rank) {
    auto& address = mesh_.addresses.emplace_back(unpack(table_[static_cast<size_t>(rank)]));
    const bool as_rank_0_sees_it = rank > 0 && (!address.is_loopback() || rank_0_.is_loopback());
    if (options_.rank == 0 || as_rank_0_sees_it) continue;
    const int port = address.port();
    address = rank_0_;
    address.set_port(port);
  }
  const Greeting words = greeting(Purpose::notices);
  for (const int child : children_of(options_.rank, options_.ranks)) {
    const auto& address = mesh_.addresses[static_cast<size_t>(child)];
    std::string problem;
    Descriptor socket = connect_once(address, deadline_, problem);
    if (!socket.open() || !send(socket, &words, sizeof words) ||
        !send(socket, table_.data(), table_.size() * sizeof(PackedAddress))) {
      fail("rank ", child, " (", address.host(), ") ended during start-up, or rank ", options_.rank,
           " cannot reach its port ", address.port(), ": ", problem.empty() ? "it closed the connection" : problem,
           "; see that rank's own last lines");
    }
    mesh_.notices.add(child, std::move(socket), options_.silence);
  }
}

TcpMesh Start::take() { return std::move(mesh_); }

}  // namespace tcp

TcpMesh connect_tcp_mesh(const TcpOptions& options) {
  AXONN_CHECK(options.ranks >= 1 && options.rank >= 0 && options.rank < options.ranks, tcp::kWhere,
              "need 0 <= RANK < WORLD_SIZE, got RANK ", options.rank, " and WORLD_SIZE ", options.ranks);
  tcp::raise_file_limit();
  tcp::Start start(options);
  if (options.ranks > 1) {
    options.rank == 0 ? start.gather() : start.join();
    start.spread();
  }
  return start.take();
}

}  // namespace axonn
