#pragma once

#include <memory>

#include "axonn/optim/make_optimizer.hpp"

namespace axonn {

// Specialised beside every rule: make_optimizer() knows them by the table of OptimizerKind alone.
template <OptimizerKind kind>
std::unique_ptr<Optimizer> make_rule(Context& context, const Parameters& parameters, const OptimizerSettings& settings);

}  // namespace axonn
