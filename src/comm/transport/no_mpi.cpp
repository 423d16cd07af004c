#include "axonn/core/error.hpp"
#include "comm/transport/mpi_transport.hpp"

namespace axonn {

std::unique_ptr<Transport> make_mpi_transport(NodePlace&) {
  throw BackendError("comm.environment",
                     "an MPI launcher started this program, which was built without MPI; build with "
                     "-DAXONN_WITH_MPI=ON, or start it by RANK and "
                     "WORLD_SIZE");
}

}  // namespace axonn
