#pragma once

#include "axonn/coconet/update/update_program.hpp"
#include "axonn/optim/make_optimizer.hpp"
#include "axonn/terms/optimizer_kind.hpp"

namespace axonn {

// The program of configs/programs/NAME.program, which the build puts into the library.
coconet::UpdateProgram optimizer_program(OptimizerKind kind);

// The program of settings.file, or else of settings.kind.
coconet::UpdateProgram optimizer_program(const OptimizerSettings& settings);

}  // namespace axonn
