#pragma once

#include <cstdint>

namespace axonn {

// The MPI that this library was built with. `mpich`: MPICH, or one with its interface (Cray, Intel,
// MVAPICH).
enum class MpiFamily : uint8_t { none, open_mpi, mpich };
MpiFamily built_mpi();

}  // namespace axonn
