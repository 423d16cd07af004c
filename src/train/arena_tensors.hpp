#pragma once

#include <vector>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/optim/optimizer.hpp"

namespace axonn {

// A rank's part of the parameters in an arena, and of their state, as checkpoint tensors. A state
// without a tensor is that of scattered weights.
std::vector<CheckpointTensor> arena_tensors(const Arena& arena, const Grid& grid,
                                            const std::vector<OptimizerState>& states);

}  // namespace axonn
