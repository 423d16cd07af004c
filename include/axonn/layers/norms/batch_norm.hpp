#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace axonn {

class Context;

struct NormalisedBatch {
  at::Tensor tensor;          // like the input
  at::Tensor mean, variance;  // (channels), of all ranks; fp32 for bf16 and fp16; variance: mean of squared distances
  int64_t count = 0;          // numbers per channel on all ranks
};

// Batch normalisation without weight and bias (Ioffe and Szegedy, 2015):
//
//   y = (x - mean) / sqrt(variance + epsilon)
//
// for x (rows, channels, ...), with one mean and variance per channel over the rows of all ranks of
// Z and data, which may have different numbers of rows. So result and gradient are those of one
// process with all rows. The channels are this rank's, whether split over X or Y or not. Forward
// and backward exchange two numbers per channel, once each. Every rank of the grid calls it.
NormalisedBatch normalise_batch(Context& context, const at::Tensor& x, double epsilon);

}  // namespace axonn
