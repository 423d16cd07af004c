#pragma once

#include <array>

#include "axonn/layers/layout.hpp"
#include "axonn/layers/sharded_module.hpp"

namespace axonn {

struct Conv2dOptions {
  int64_t in = 0;  // channels
  int64_t out = 0;
  std::array<int64_t, 2> kernel = {3, 3};  // height, width; so the following
  std::array<int64_t, 2> stride = {1, 1};
  std::array<int64_t, 2> padding = {0, 0};
  std::array<int64_t, 2> dilation = {1, 1};
  int64_t groups = 1;
  bool doubled = false;                      // convolves the picture made twice as high and wide, every pixel repeated; 3x3 kernels alone
  bool bias = true;
  bool transposed = false;                   // roles of X and Y swapped: true takes what false gives
  bool whole_input = false;                  // takes all channels on every rank (3 of a picture): nothing to sum in forward
  bool whole_output = false;                 // gives all channels on every rank (3 or 6 of a picture): nothing to sum in backward
  std::vector<int64_t> input_segments = {};  // of the input channels, each split on its own (skip|x); empty: one
  std::vector<int64_t> segments = {};        // of the output channels (q|k|v); empty: one
  Initial weight_initial = Initial::normal(0.02);
  Initial bias_initial = Initial::zeros();
};

// Convolution of pictures under Agarwal's 3D product (AxoNN, section III, Algorithm 1, with channels for k and n). Pictures are (batch,
// height, width, channels): the features of a Layout are the last dim, as everywhere. Roles in = Y, out = X, swapped when transposed:
//
//   input  (batch, height, width, in)   batch over Z and data, channels over the in axis, replicated over the out axis
//   weight (out, kernel h, kernel w, in / groups)   out over the out axis, in over the in axis; the block flattened and cut over Z;
//                                       replicated over data
//   bias   (out)                        over the out axis, replicated over the in axis and Z
//   output (batch, height', width', out)   channels over the out axis, replicated over the in axis
//
// height' = (height + 2 padding - dilation (kernel - 1) - 1) / stride + 1, rounded down, likewise width'; with doubled, 2 height. forward: all-gather the weight
// over Z, convolve, all-reduce over the in axis. backward: dI all-reduced over the out axis, dW reduce-scattered over Z. A whole input or
// output is one whose axis does not cut: its rank computes what its neighbours along that axis compute, and a sum falls away.
//
// Groups > 1 keep the layout: in and out lie on the same shards, over the in axis, and nothing is summed; every rank of the out axis
// computes the same. UserError unless the size of the in axis divides groups, with the group counts that are legal.
//
// Channels need not divide by the axes. Every rank of the grid calls it, in the same order.
class Conv2dImpl : public ShardedModule {
 public:
  Conv2dImpl(Context& context, Conv2dOptions options);
  Value forward(const Value& input);  // UserError unless in input_layout()
  // The same in two steps: the product is done, its sum is under way until PendingValue::wait().
  PendingValue launch(const Value& input);

  const Conv2dOptions& options() const { return options_; }
  Axis in_axis() const { return options_.transposed ? Axis::x : Axis::y; }
  Axis out_axis() const { return options_.transposed ? Axis::y : Axis::x; }
  // Over what the output, and dI, are summed.
  AxisSet output_sum() const { return options_.groups > 1 || options_.whole_input ? AxisSet() : in_axis(); }
  AxisSet gradient_sum() const { return options_.groups > 1 || options_.whole_output ? AxisSet() : out_axis(); }
  Layout input_layout() const;
  Layout output_layout() const;

 private:
  ShardSpec weight_spec() const;

  Conv2dOptions options_;
  ShardedParameter weight_;
  std::optional<ShardedParameter> bias_;
};

using Conv2d = Layer<Conv2dImpl, Conv2dOptions>;

}  // namespace axonn
