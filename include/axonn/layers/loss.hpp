#pragma once

#include "axonn/layers/layout.hpp"

namespace axonn {

inline constexpr int64_t kIgnoredTarget = -100;

// Sum over this rank's rows of -log softmax(logits)[target], for logits (..., vocabulary / axis) split over an axis and never gathered: two
// all-reduces of one and two numbers a row over that axis. Padding of the vocabulary takes no part. Rows whose target is kIgnoredTarget
// count nothing. The same scalar on every rank of the axis. Divide by the global count of targets with mean().
at::Tensor cross_entropy_sum(Context& context, const Value& logits, const at::Tensor& targets);

// The sum over all rows of the grid divided by the global count: every rank gets the same number and the gradient of its own part. `sum` is
// this rank's sum (a scalar, the same on X and Y), `global_count` the number of terms on the whole grid. Every rank calls it.
at::Tensor mean(const at::Tensor& sum, double global_count, Context& context);

}  // namespace axonn
