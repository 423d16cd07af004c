#include "axonn/comm/launch.hpp"

#include <cstdlib>

#include "axonn/core/env.hpp"

namespace axonn {

bool launched_by_mpi() { return env::get("OMPI_COMM_WORLD_SIZE") || env::get("PMIX_RANK"); }

bool launched() { return launched_by_mpi() || env::get("WORLD_SIZE"); }

int launched_rank() {
  for (const char* name : {"PMIX_RANK", "RANK"})
    if (const auto text = env::get(name)) return std::atoi(text->c_str());
  return 0;
}

}  // namespace axonn
