#pragma once

#include <optional>
#include <utility>

#include "axonn/layers/layout.hpp"
#include "axonn/layers/sharded_module.hpp"

namespace axonn {

struct LinearOptions {
  int64_t in = 0;
  int64_t out = 0;
  bool bias = true;
  bool transposed = false;             // roles of X and Y swapped: true takes what false gives
  std::vector<int64_t> segments = {};  // of the output features, each split on its own (q|k|v); empty: one
  bool pad_output = false;             // output features padded to a multiple of the out axis (the vocabulary)
  std::optional<Layout> input = {};    // how a plain tensor given to forward() is laid out; nothing: as the layer needs it
  std::optional<Layout> output = {};   // how the result is wanted; nothing: as the layer gives it
  Initial weight_initial = Initial::normal(0.02);
  Initial bias_initial = Initial::zeros();
};

// y = x W^T + b under Agarwal's 3D product (AxoNN, section III, Algorithm 1). With the roles in = Y, out = X (X and Y swapped when
// transposed):
//
//   input  (rows, in)   rows over Z and data, features over the in axis, replicated over the out axis
//   weight (out, in)    out over the out axis, in over the in axis; the block flattened and cut over Z; replicated over data
//   bias   (out)        over the out axis, replicated over the in axis and Z
//   output (rows, out)  rows over Z and data, features over the out axis, replicated over the in axis
//
// forward: all-gather the weight over Z, multiply, all-reduce over the in axis. backward: dI all-reduced over the out axis, dW
// reduce-scattered over Z. Sizes need not divide by the axes. Every rank of the grid calls it, in the same order.
class LinearImpl : public ShardedModule {
 public:
  LinearImpl(Context& context, LinearOptions options);
  // Uses the weight of another layer, shape (out, in) with the same sharding (a tied head); the other layer owns it.
  LinearImpl(Context& context, LinearOptions options, ShardedParameter weight);

  at::Tensor forward(const at::Tensor& input);  // laid out as options.input says; the result as options.output says
  Value forward(const Value& input);            // UserError unless in input_layout()
  // The same in two steps: the product is done, its sum over the in axis is under way until PendingValue::wait().
  PendingValue launch(const Value& input);

  Axis in_axis() const { return options_.transposed ? Axis::x : Axis::y; }
  Axis out_axis() const { return options_.transposed ? Axis::y : Axis::x; }
  Layout input_layout() const { return Layout::over(in_axis()); }
  Layout output_layout() const { return {.axis = out_axis(), .segments = options_.segments, .padded = options_.pad_output}; }
  const ShardedParameter& weight() const { return weight_; }

 private:
  ShardSpec weight_spec() const;
  void add_bias();

  LinearOptions options_;
  ShardedParameter weight_;
  std::optional<ShardedParameter> bias_;
};

class Linear : public Layer<LinearImpl, LinearOptions> {
 public:
  using Layer::Layer;
  Linear(Context& context, LinearOptions options, ShardedParameter weight)
      : Layer(std::make_shared<LinearImpl>(context, std::move(options), std::move(weight))) {}
};

}  // namespace axonn
