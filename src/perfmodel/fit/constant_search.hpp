#pragma once

#include <span>

#include "axonn/perfmodel/fit/constant_fit.hpp"

namespace axonn {

// The constants of fit_constants(), whose runs are of one kind of machine.
ConstantFit search_constants(std::span<const MeasuredRun> runs);

}  // namespace axonn
