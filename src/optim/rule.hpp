#pragma once

#include <memory>

#include "optim/device_optimizer.hpp"

namespace axonn {

// The rule of LibTorch's kernels for devices. Specialised in the file of every rule:
// make_optimizer() finds them only through the table of OptimizerKind.
template <OptimizerKind kind>
std::unique_ptr<Optimizer> make_rule(Context& context, const Parameters& parameters, const OptimizerSettings& settings);

}  // namespace axonn
