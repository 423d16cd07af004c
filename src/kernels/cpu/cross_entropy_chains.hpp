#pragma once

#include <ATen/core/Tensor.h>

// The pointwise part of axonn/layers/loss.hpp on CPUs. logits: (rows, n), contiguous, of which the
// first `columns` are this rank's part of the vocabulary; the rest is padding and is not read. A
// row is one call of a stage chain, in fp32 for bf16 and fp16 with sums in fp64: the bits depend
// neither on the instruction set nor on the number of threads. No probabilities are kept.
namespace axonn {

// The largest logit of every row: (rows), fp32 or, for fp64, fp64. -infinity where columns is 0.
at::Tensor row_maxima_on_cpu(const at::Tensor& logits, int64_t columns);

// Sums of exp(logit - maximum), in the type of `maxima`.
at::Tensor row_sums_on_cpu(const at::Tensor& logits, int64_t columns, const at::Tensor& maxima);

// Of a loss that is `scale` times the sum over rows of log(sum) + maximum - logits[target]:
// (softmax - 1 at the target) * scale, in the type of the logits. `sums` are of the whole
// vocabulary. targets (rows), int64: the column of the target here; kElsewhere if another rank
// holds it; kIgnored for a row without a gradient. Padding has the gradient 0.
inline constexpr int64_t kElsewhere = -1, kIgnored = -2;
at::Tensor cross_entropy_gradient_on_cpu(const at::Tensor& logits, int64_t columns, const at::Tensor& maxima,
                                         const at::Tensor& sums, const at::Tensor& targets, double scale);

}  // namespace axonn
