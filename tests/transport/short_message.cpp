// Rank 0 sends less than rank 1 expects, which MPI itself takes without an error. Collectives of
// different sizes do not meet (CallLabels), so this is about the transport.
#include <array>
#include <cstddef>
#include <cstdio>

#include "axonn/core/error.hpp"
#include "transport/node/node_memory.hpp"
#include "transport/mpi_transport.hpp"

int main() {
  axonn::NodePlace place;
  const auto transport = axonn::make_mpi_transport(place, 0);
  std::array<std::byte, 80> data{};
  try {
    const auto ticket = transport->rank() == 0 ? transport->send(1, 4, data.data(), 40)
                                               : transport->receive(0, 4, data.data(), data.size());
    while (!transport->test(ticket)) continue;
  } catch (const axonn::BackendError& error) {
    std::printf("%s\n", error.what());
    std::fflush(stdout);
    transport->abort(1);
  }
}
