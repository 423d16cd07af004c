#pragma once

#include "axonn/layers/layout.hpp"

namespace axonn {

inline constexpr int64_t kIgnoredTarget = -100;

// Sum over this rank's rows of -log softmax(logits)[target], for logits (..., vocabulary / axis)
// that are split over an axis and never gathered. Two all-reduces over that axis move one and two
// numbers per row. Padding of the vocabulary is ignored; on GPUs it may be -infinity in `logits`
// afterwards. Rows whose target is kIgnoredTarget contribute nothing. The result is the same scalar
// on every rank of the axis. Divide it by the global count of targets with mean().
// On CPUs the passes over the logits are chains of stages (docs/coconet.md): bits depend neither on
// the instruction set nor on the number of threads, and the logits themselves are kept for
// backward, no probabilities. They must not change until then. UserError there for a target that is
// no entry of the vocabulary.
// On GPUs with KernelChoice::cross_entropy the logits are kept too, and in backward the
// gradient takes their place: a second backward is a UserError. The loss of a target that is no
// entry of the vocabulary is NaN.
at::Tensor cross_entropy_sum(Context& context, const Value& logits, const at::Tensor& targets);

// The terms of that sum, in the sizes of the targets; 0 for kIgnoredTarget. They are fp64 for
// logits in fp64, otherwise fp32, and have no gradient. UserError on every device for a target that
// is no entry of the vocabulary.
at::Tensor cross_entropy_rows(Context& context, const Value& logits, const at::Tensor& targets);

// The sum over all rows of the grid, divided by the global count. Every rank gets the same number
// and the gradient of its own part. `sum` is this rank's sum (a scalar, the same on X and Y).
// `global_count` is the number of terms on the whole grid. Every rank calls it.
at::Tensor mean(const at::Tensor& sum, double global_count, Context& context);

// The mean over all rows of the grid of a loss that is already a mean, that over this rank's
// `count` rows (or targets, or weights of classes), as LibTorch's losses are by default. Counts may
// differ between ranks, also be 0. Every rank gets the same number and the gradient of its own
// part. Every rank calls it, and waits for the others.
//   auto loss = axonn::mean_over_ranks(torch::nll_loss(output, target), target.size(0), context);
//   loss.backward();
// In a step of several micro-batches, `count_in_step` is this rank's count in all of them; then the
// results of the micro-batches add up to the mean of the step. 0: there is one.
at::Tensor mean_over_ranks(const at::Tensor& mean, double count, Context& context, double count_in_step = 0);

}  // namespace axonn
