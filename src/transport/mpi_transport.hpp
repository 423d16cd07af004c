#pragma once

#include <memory>

#include "transport/transport.hpp"

namespace axonn {

// A process's rank among the processes of its node, and their number.
struct NodePlace {
  int rank = 0;
  int ranks = 1;
};

// Initialises MPI and fills in `place`. The destructor finalises MPI, on the same thread.
// `launched_ranks`: what the launcher says, 0 if it does not; UserError if MPI finds one rank in
// place of several. BackendError when MPI is not built in, or fails.
std::unique_ptr<Transport> make_mpi_transport(NodePlace& place, int launched_ranks);

}  // namespace axonn
