#pragma once

#include <cstdint>

#include "axonn/layers/context.hpp"
#include "axonn/optim/optimizer.hpp"

namespace axonn {

// Compares a hash of every tensor (weight and optimizer state) over the ranks that must hold the same bits. UserError on every rank, naming
// the first tensor that differs and the axes. Every rank of the grid calls it.
void check_replicas(Context& context, const Parameters& parameters, const Optimizer& optimizer, int64_t step);

}  // namespace axonn
