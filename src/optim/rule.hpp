#pragma once

#include <memory>

#include "axonn/optim/make_optimizer.hpp"

namespace axonn {

// Specialised in the file of every rule: make_optimizer() finds them only through the table of
// OptimizerKind.
template <OptimizerKind kind>
std::unique_ptr<Optimizer> make_rule(Context& context, const Parameters& parameters, const OptimizerSettings& settings);

}  // namespace axonn
