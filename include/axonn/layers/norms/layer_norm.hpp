#pragma once

#include "axonn/layers/layout.hpp"
#include "axonn/layers/sharded_module.hpp"

namespace axonn {

struct LayerNormOptions {
  int64_t features = 0;
  Axis axis = Axis::y;  // the features are split over it
  double epsilon = 1e-5;
};

// y = (x - mean) / sqrt(variance + epsilon) * weight + bias over all features of a row, wherever they are: (..., features/axis) -> the
// same. Ranks exchange (mean, M2) of their features, merged by Chan's formula (sums of squares cancel), and two sums a row in backward.
// weight and bias are split like the features, replicated over the other axes. Every rank of the grid calls it.
class LayerNormImpl : public ShardedModule {
 public:
  LayerNormImpl(Context& context, LayerNormOptions options);
  Value forward(const Value& input);

 private:
  LayerNormOptions options_;
  ShardedParameter weight_;
  ShardedParameter bias_;
  at::Tensor shares_;  // of the features, by rank along the axis; on the device from the first forward on
};

using LayerNorm = Layer<LayerNormImpl, LayerNormOptions>;

}  // namespace axonn
