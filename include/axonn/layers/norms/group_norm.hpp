#pragma once

#include <optional>

#include "axonn/layers/norms/norm.hpp"

namespace axonn {

struct GroupNormOptions {
  int64_t groups = 32;
  int64_t channels = 0;
  Layout layout = Layout::over(Axis::y);  // input and output; has segments after a concatenation (skip|x)
  double epsilon = 1e-5;
};

// y = (x - mean) / sqrt(variance + epsilon) * weight + bias for images (batch, height, width,
// channels/axis). Mean and variance are over the pixels and the channels / groups consecutive
// channels of a group, on whichever ranks these are, so the network is the same on every grid.
// Variances are sums of squared distances from means, merged over channels by Chan's formula,
// because sums of squares cancel. If a group lies on two ranks, the ranks gather (mean, variance)
// of every channel, and backward all-reduces two numbers per group. Elsewhere nothing is exchanged.
// weight and bias are split like the channels and replicated over the other axes.
// On a GPU with KernelChoice::group_norm, a norm of whole groups is one launch of our own, with
// what follows it in activated(), and backward is two. UserError unless the groups divide the
// channels. Every rank of the grid calls it.
class GroupNormImpl : public NormImpl {
 public:
  GroupNormImpl(Context& context, GroupNormOptions options);
  Value forward(const Value& input) override;
  // silu(y), or silu(y * (1 + scale) + shift) with scale_and_shift (batch, 2 * channels/axis).
  Value activated(const Value& input, const at::Tensor& scale_and_shift = {});
  bool exchanges() const { return exchanges_; }  // whether a group lies on two ranks

 private:
  void check(const Value& input) const;
  Value plain(const Value& input);
  // nullopt where our own kernels do not take it.
  std::optional<Value> fused(const Value& input, bool silu, const at::Tensor& scale_and_shift);

  GroupNormOptions options_;
  ShardedParameter weight_;
  ShardedParameter bias_;
  bool exchanges_ = false;
  at::Tensor group_of_channel_;  // group of each local channel where ranks exchange; set by the first forward
};

using GroupNorm = Layer<GroupNormImpl, GroupNormOptions>;

}  // namespace axonn
