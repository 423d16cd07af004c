#pragma once

#include <array>

#include "axonn/layers/add_to.hpp"
#include "axonn/layers/layout.hpp"
#include "axonn/layers/sharded_module.hpp"

namespace axonn {

struct Conv2dOptions {
  int64_t in = 0;  // channels
  int64_t out = 0;
  std::array<int64_t, 2> kernel = {3, 3};  // (height, width), also below
  std::array<int64_t, 2> stride = {1, 1};
  std::array<int64_t, 2> padding = {0, 0};
  std::array<int64_t, 2> dilation = {1, 1};
  int64_t groups = 1;
  bool doubled = false;  // first doubles the image by repeating every pixel; only 3x3 kernels
  bool bias = true;
  bool transposed = false;                   // swaps X and Y: takes the output layout of a layer without it
  bool whole_input = false;                  // replicated input (3 channels of an image): no sum in forward
  bool whole_output = false;                 // replicated output (3 or 6 channels): no sum in backward
  std::vector<int64_t> input_segments = {};  // input channels, each segment split separately (skip|x); empty: one
  std::vector<int64_t> segments = {};        // output channels (q|k|v); empty: one
  Initial weight_initial = Initial::normal(0.02);
  Initial bias_initial = Initial::zeros();
};

// Whether ContextOptions::convolutions chooses its kernel: 3x3, stride 1, padded by 1, not doubled.
bool has_kernel_choice(const Conv2dOptions& options);

// Convolution of images under Agarwal's 3D product (AxoNN, section III, Algorithm 1, with channels
// for k and n). Images are (batch, height, width, channels); as everywhere, the features of a
// Layout are the last dim. The roles are in = Y and out = X; `transposed` swaps X and Y.
//
//   input  (batch, height, width, in)
//     batch over Z and data, channels over the in axis, replicated over the out axis
//   weight (out, kernel h, kernel w, in / groups)
//     out over the out axis, in over the in axis; the flattened block over Z; replicated over data
//   bias   (out)
//     over the out axis, replicated over the in axis and Z
//   output (batch, height', width', out)
//     batch over Z and data, channels over the out axis, replicated over the in axis
//
// height' = (height + 2 padding - dilation (kernel - 1) - 1) / stride + 1, rounded down, likewise
// width'. With `doubled` they are 2 height and 2 width.
//
// forward: all-gather the weight over Z, convolve, all-reduce over the in axis. backward:
// all-reduce dI over the out axis, reduce-scatter dW over Z. A replicated input or output is not
// split over its axis: the ranks along that axis compute the same, and its sum is omitted.
// ContextOptions::forward.linear decides how the sum of the output runs. Its parts are whole
// images.
//
// Groups > 1 keep the layout: in and out are split alike over the in axis, and nothing is summed.
// Every rank of the out axis computes the same. UserError listing the legal group counts unless the
// size of the in axis divides groups.
//
// Channels need not divide by the axes. Every rank of the grid calls it, in the same order.
class Conv2dImpl : public ShardedModule {
 public:
  Conv2dImpl(Context& context, Conv2dOptions options);
  Value forward(const Value& input);  // UserError unless in input_layout()
  // forward() in two steps: launch() computes the product, PendingValue::wait() completes its sum.
  PendingValue launch(const Value& input);
  // The same with dropout and the sum of a residual branch as one operation: stream + dropout(y).
  // The stream stays as it is until wait().
  PendingValue launch(const Value& input, const AddTo& add);

  const Conv2dOptions& options() const { return options_; }
  Axis in_axis() const { return options_.transposed ? Axis::x : Axis::y; }
  Axis out_axis() const { return options_.transposed ? Axis::y : Axis::x; }
  // Axes over which the output and dI are summed.
  AxisSet output_sum() const { return options_.groups > 1 || options_.whole_input ? AxisSet() : in_axis(); }
  AxisSet gradient_sum() const { return options_.groups > 1 || options_.whole_output ? AxisSet() : out_axis(); }
  Layout input_layout() const;
  Layout output_layout() const;

 private:
  PendingValue launch(const Value& input, const AddTo* add);
  ShardSpec weight_spec() const;

  Conv2dOptions options_;
  ShardedParameter weight_;
  std::optional<ShardedParameter> bias_;
};

using Conv2d = Layer<Conv2dImpl, Conv2dOptions>;

}  // namespace axonn
