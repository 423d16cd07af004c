#include "axonn/core/env.hpp"
#include "comm/transport/mpi_transport.hpp"

namespace axonn {

bool launched_by_mpi() { return env::get("OMPI_COMM_WORLD_SIZE") || env::get("PMIX_RANK"); }

}  // namespace axonn
