#pragma once

#include "axonn/layers/layout.hpp"

namespace axonn {

inline constexpr int64_t kIgnoredTarget = -100;

// Sum over this rank's rows of -log softmax(logits)[target], for logits (..., vocabulary / axis) split over an axis and never gathered: two
// all-reduces of one and two numbers a row over that axis. Padding of the vocabulary takes no part. Rows whose target is kIgnoredTarget
// count nothing. The same scalar on every rank of the axis. Divide by the global count of targets with mean().
at::Tensor cross_entropy_sum(Context& context, const Value& logits, const at::Tensor& targets);

}  // namespace axonn
