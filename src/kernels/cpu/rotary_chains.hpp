#pragma once

#include <cstdint>
#include <span>

#include <ATen/core/Tensor.h>

// axonn/layers/rotary.hpp on CPUs.
namespace axonn {

// Turns heads (batch, sequence, heads, features), features contiguous, in place. cosines and sines
// (positions, features / 2) are of the type in which numbers of `heads` are computed. Token s of
// sample b is at position first[b] + s. `back`: the other way, which is the gradient.
void rotate_on_cpu(const at::Tensor& heads, const at::Tensor& cosines, const at::Tensor& sines,
                   std::span<const int64_t> first, bool back);

}  // namespace axonn
