#pragma once

#include "axonn/overlap/update/update_program.hpp"
#include "axonn/terms/optimizer_kind.hpp"

namespace axonn {

// The program of configs/programs/NAME.program, which the build puts into the library.
overlap::UpdateProgram optimizer_program(OptimizerKind kind);

}  // namespace axonn
