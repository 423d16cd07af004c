#pragma once

#include "axonn/layers/layout.hpp"
#include "axonn/layers/sharded_module.hpp"

namespace axonn {

struct GroupNormOptions {
  int64_t groups = 32;
  int64_t channels = 0;
  Layout layout = Layout::over(Axis::y);  // of input and output; with segments after a concatenation (skip|x)
  double epsilon = 1e-5;
};

// y = (x - mean) / sqrt(variance + epsilon) * weight + bias for pictures (batch, height, width, channels/axis), with mean and variance over
// the pixels and the channels / groups consecutive channels of a group, wherever these are: the network is the same on every grid. Variances
// are sums of squared distances from means, channels merged by Chan's formula (sums of squares cancel). Where a group lies on two ranks they
// gather (mean, variance) of every channel, and sum two numbers a group in backward; elsewhere nothing is exchanged. weight and bias are
// split like the channels, replicated over the other axes. UserError unless the groups divide the channels. Every rank of the grid calls it.
class GroupNormImpl : public ShardedModule {
 public:
  GroupNormImpl(Context& context, GroupNormOptions options);
  Value forward(const Value& input);
  bool exchanges() const { return exchanges_; }  // whether a group lies on two ranks

 private:
  GroupNormOptions options_;
  ShardedParameter weight_;
  ShardedParameter bias_;
  bool exchanges_ = false;
  at::Tensor group_of_channel_;  // of this rank's channels, where ranks exchange; on the device from the first forward on
};

using GroupNorm = Layer<GroupNormImpl, GroupNormOptions>;

}  // namespace axonn
