#pragma once

#include <cstdint>
#include <span>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/layers/context.hpp"

namespace axonn {

// Compares a hash of every tensor over the ranks that must hold the same bits: those along its
// replicated_axes(). So a tensor is not compared along the axes of its cut. On a difference, every
// rank throws a UserError with the first tensor that differs and the axes. Every rank of the grid
// calls it, with the same tensors: those of checkpoint_tensors().
void check_replicas(Context& context, std::span<const CheckpointTensor> tensors, int64_t step);

}  // namespace axonn
