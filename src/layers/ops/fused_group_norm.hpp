#pragma once

#include <memory>

#include "layers/operation.hpp"

namespace axonn {

struct FusedGroupNormOptions {
  int64_t groups = 0;  // those on this rank
  double epsilon = 0;
  bool silu = false;
};

// GroupNorm of images (batch, height, width, channels) whose groups are whole, then
// norm * (1 + scale) + shift where scale_and_shift (batch, 2 * channels) is defined, then SiLU if
// asked: one launch forward, and two backward. scale_and_shift is the second input of
// record(). Only where fused_group_norm_fits().
std::unique_ptr<Operation> fused_group_norm(ShardedParameter weight, ShardedParameter bias,
                                            const FusedGroupNormOptions& options, const Tensor& scale_and_shift);

// Whether the kernels take such images, where gradients are of type `gradients`.
bool fused_group_norm_fits(const Tensor& images, int64_t groups, at::ScalarType gradients);

}  // namespace axonn
