#pragma once

#include <span>
#include <string>

#include "axonn/comm/environment.hpp"

namespace axonn {

// Checks for every transport; all ranks of a job run the body. collectives_test uses threads of one
// process, mpi_collectives_test uses MPI.
struct CollectiveCheck {
  const char* name;
  void (*run)(Environment& environment);
};
std::span<const CollectiveCheck> collective_checks();
inline void PrintTo(const CollectiveCheck& check, std::ostream* out) { *out << check.name; }

}  // namespace axonn
