#pragma once

#include "axonn/layers/norms/norm.hpp"

namespace axonn {

struct RmsNormOptions {
  int64_t features = 0;
  Axis axis = Axis::y;  // the features are split over it
  double epsilon = 1e-5;
};

// y = x / sqrt(mean(x^2) + epsilon) * weight, with the mean over all features of a row, on
// whichever ranks they are (Zhang and Sennrich, Root Mean Square Layer Normalization, 2019): (...,
// features/axis) -> the same. Ranks of the axis exchange one number per row, in forward and in
// backward. weight is split like the features and replicated over the other axes. Its gradient is
// summed over ranks that divide the rows (Layout::rows). Every rank of the grid calls it.
class RmsNormImpl : public NormImpl {
 public:
  RmsNormImpl(Context& context, RmsNormOptions options);
  Value forward(const Value& input) override;  // UserError unless its features are split over the axis

 private:
  RmsNormOptions options_;
  ShardedParameter weight_;
};

using RmsNorm = Layer<RmsNormImpl, RmsNormOptions>;

}  // namespace axonn
