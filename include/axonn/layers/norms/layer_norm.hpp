#pragma once

#include "axonn/layers/norms/norm.hpp"

namespace axonn {

struct LayerNormOptions {
  int64_t features = 0;
  Axis axis = Axis::y;  // the features are split over it
  double epsilon = 1e-5;
};

// y = (x - mean) / sqrt(variance + epsilon) * weight + bias, with mean and variance over all
// features of a row, on whichever ranks they are: (..., features/axis) -> the same. Ranks gather
// (mean, variance) of their features and merge them by Chan's formula, because sums of squares
// cancel. Backward all-reduces two sums per row. weight and bias are split like the features and
// replicated over the other axes. Their gradients are summed over ranks that divide the rows
// (Layout::rows). Every rank of the grid calls it.
//
// On GPUs with KernelChoice::layer_norm, all features on this rank and rows that are not divided,
// backward is two launches, and the gradient of the stream is added in the first.
class LayerNormImpl : public NormImpl {
 public:
  LayerNormImpl(Context& context, LayerNormOptions options);
  Value forward(const Value& input) override;
  Branch branch(const Value& stream) override;

 private:
  LayerNormOptions options_;
  ShardedParameter weight_;
  ShardedParameter bias_;
  at::Tensor shares_;  // fraction of the features on each rank of the axis; set by the first forward
};

using LayerNorm = Layer<LayerNormImpl, LayerNormOptions>;

}  // namespace axonn
