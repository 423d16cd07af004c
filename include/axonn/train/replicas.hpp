#pragma once

#include <cstdint>

#include "axonn/layers/context.hpp"
#include "axonn/optim/optimizer.hpp"

namespace axonn {

// Compares a hash of every tensor (weights and optimizer state) over the ranks that must hold the
// same bits. On a difference, every rank throws a UserError with the first tensor that differs and
// the axes. Every rank of the grid calls it.
void check_replicas(Context& context, const Parameters& parameters, const Optimizer& optimizer, int64_t step);

}  // namespace axonn
