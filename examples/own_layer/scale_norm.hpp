#pragma once

#include <cstdint>

#include <axonn/layers/layout.hpp>
#include <axonn/layers/sharded_module.hpp>

struct ScaleNormOptions {
  int64_t features = 0;
  axonn::Axis axis = axonn::Axis::x;  // the features are split over it
  double epsilon = 1e-5;
};

// y = w x r, r = 1 / sqrt(mean(x^2) + epsilon), with the mean over all features of a row, on
// whichever ranks they are, and one trained number w (Nguyen and Salazar, Transformers without
// Tears, 2019): (..., features/axis) -> the same. Ranks of the axis exchange one number per row, in
// forward and in backward. Every rank of the grid calls it. UserError unless the features are split
// over the axis.
class ScaleNormImpl : public axonn::ShardedModule {
 public:
  ScaleNormImpl(axonn::Context& context, ScaleNormOptions options);
  axonn::Value forward(const axonn::Value& input);

 private:
  ScaleNormOptions options_;
  axonn::ShardedParameter weight_;  // (1), the same on all ranks
};

using ScaleNorm = axonn::Layer<ScaleNormImpl, ScaleNormOptions>;
