#include "axonn/core/error.hpp"
#include "transport/mpi_family.hpp"
#include "transport/mpi_transport.hpp"

namespace axonn {

MpiFamily built_mpi() { return MpiFamily::none; }

std::unique_ptr<Transport> make_mpi_transport(NodePlace&, int) {
  throw BackendError("comm.environment",
                     "AXONN_TRANSPORT=mpi asks for MPI, and this program was built without it; build with "
                     "-DAXONN_WITH_MPI=ON, or unset AXONN_TRANSPORT");
}

}  // namespace axonn
