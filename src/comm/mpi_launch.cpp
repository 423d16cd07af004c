#include "axonn/core/env.hpp"
#include "comm/mpi_transport.hpp"

namespace axonn {

bool launched_by_mpi() { return env::get("OMPI_COMM_WORLD_SIZE") || env::get("PMIX_RANK"); }

}  // namespace axonn
