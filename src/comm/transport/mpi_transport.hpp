#pragma once

#include <memory>

#include "comm/transport/transport.hpp"

namespace axonn {

// Place of a process among those of its node.
struct NodePlace {
  int rank = 0;
  int ranks = 1;
};

// Whether an MPI launcher (mpirun, srun --mpi=pmix) started this process.
bool launched_by_mpi();

// Initialises MPI; the destructor finalises it, on the same thread. `place` is filled in. BackendError when MPI is not built in, or
// refuses.
std::unique_ptr<Transport> make_mpi_transport(NodePlace& place);

}  // namespace axonn
