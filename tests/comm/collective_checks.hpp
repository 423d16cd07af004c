#pragma once

#include <span>
#include <string>

#include "axonn/comm/environment.hpp"

namespace axonn {

// What every transport must hold, each as a body that all ranks of a job run: over threads of one process (collectives_test) and over MPI
// (mpi_collectives_test).
struct CollectiveCheck {
  const char* name;
  void (*run)(Environment& environment);
};
std::span<const CollectiveCheck> collective_checks();
inline void PrintTo(const CollectiveCheck& check, std::ostream* out) { *out << check.name; }

}  // namespace axonn
