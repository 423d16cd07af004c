#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "axonn/layers/add_to.hpp"
#include "axonn/layers/layout.hpp"
#include "axonn/layers/low_rank_options.hpp"
#include "axonn/layers/sharded_module.hpp"

namespace axonn {

class LowRank;
class Pending;
struct RowProduct;

struct LinearOptions {
  int64_t in = 0;
  int64_t out = 0;
  bool bias = true;
  bool adds_bias = true;               // false: whoever reads the output adds it and sums its gradient, as gelu() does
  bool transposed = false;             // swaps X and Y: takes the output layout of a layer without it
  std::vector<int64_t> segments = {};  // segments of the output features, each split separately (q|k|v); empty: one
  bool pad_output = false;             // pads the output features to a multiple of the out axis (vocabulary)
  std::optional<Layout> input = {};    // layout of a tensor given to forward(); nullopt: input_layout()
  std::optional<Layout> output = {};   // layout of that forward's result; nullopt: output_layout()
  Initial weight_initial = Initial::normal(0.02);
  Initial bias_initial = Initial::zeros();
  LowRankOptions low_rank = {};
};

// y = x W^T + b under Agarwal's 3D product (AxoNN, section III, Algorithm 1). The roles are in = Y
// and out = X; `transposed` swaps X and Y.
//
//  input  (rows, in)  rows over Z and data, features over the in axis, replicated over the out axis
//  weight (out, in)   out over the out axis, in over the in axis; the flattened block over Z;
//                     replicated over data
//  bias   (out)       over the out axis, replicated over the in axis and Z
//  lora_a (segments rank, in)  in over the in axis, replicated over the out axis and Z
//  lora_b (out, rank)          out over the out axis, replicated over the in axis and Z
//  output (rows, out) rows over Z and data, features over the out axis, replicated over the in axis
//
// forward: all-gather the weight over Z, multiply, all-reduce over the in axis. backward:
// all-reduce dI over the out axis, reduce-scatter dW over Z. The low-rank product joins both sums;
// only its own gradients are summed besides, over the axis that replicates each. Sizes need not
// divide by the axes. Every rank of the grid calls it, in the same order.
//
// An input whose rows are divided (Layout::rows, over the out axis) is gathered before the product,
// and again in backward, as only a rank's own rows are kept; dI is reduce-scattered. The output has
// divided rows if the stream of an AddTo has them: the sum is reduce-scattered, each rank adds to
// its own rows, and backward gathers their gradients.
//
// If joins() says so, cuBLASLt's products do the bias, the residual sum and the bias's gradient on
// the way. The residual sum is then rounded once, not twice.
class LinearImpl : public ShardedModule {
 public:
  LinearImpl(Context& context, LinearOptions options);
  // Uses the weight (out, in) of another layer with the same sharding (a tied head). The other
  // layer owns it.
  LinearImpl(Context& context, LinearOptions options, ShardedParameter weight);

  at::Tensor forward(const at::Tensor& input);  // layouts: options.input, options.output
  Value forward(const Value& input);            // UserError unless in input_layout(), with divided rows or without
  // forward() in two steps: launch() computes the product, PendingValue::wait() completes its sum
  // over the in axis.
  PendingValue launch(const Value& input);
  // The same with dropout and the sum of a residual branch as one operation: stream + dropout(y).
  // ContextOptions::forward.linear decides how it runs. The stream stays as it is until wait().
  PendingValue launch(const Value& input, const AddTo& add);
  // launch(gelu(before.launch(input).wait()), add) as one operation, where joins(): a block's MLP.
  PendingValue launch_joined(LinearImpl& before, const Value& input, const AddTo& add);
  // On a GPU in 16 bits with KernelChoice::epilogues, without dropout, on one rank along X and Y.
  bool joins(const LinearImpl& before, const Value& input, double dropout) const;

  Axis in_axis() const { return options_.transposed ? Axis::x : Axis::y; }
  Axis out_axis() const { return options_.transposed ? Axis::y : Axis::x; }
  Layout input_layout() const { return Layout::over(in_axis()); }
  Layout output_layout() const {
    return {.axis = out_axis(), .segments = options_.segments, .padded = options_.pad_output};
  }
  int64_t in_features() const { return options_.in; }
  const ShardedParameter& weight() const { return weight_; }
  const ShardedParameter& bias() const { return bias_.value(); }
  std::vector<int64_t> segments() const {
    return options_.segments.empty() ? std::vector<int64_t>{options_.out} : options_.segments;
  }
  bool adds_bias() const { return options_.adds_bias; }

 private:
  friend class PipelineBorder;
  // Takes the sum in place of this layer's output. It does the product's `owner`, too.
  using SumElsewhere = std::function<Pending(const RowProduct&)>;
  PendingValue launch(const Value& input, const AddTo* add, const SumElsewhere& elsewhere);
  void check_addition() const;
  void check_input(const Value& input) const;
  bool has_epilogues(const at::Tensor& input, double dropout) const;
  ShardSpec weight_spec() const;
  void add_bias();
  void add_low_rank();
  std::optional<LowRank> low_rank() const;

  LinearOptions options_;
  ShardedParameter weight_;
  std::optional<ShardedParameter> bias_;
  std::optional<ShardedParameter> low_rank_a_, low_rank_b_;
};

class Linear : public Layer<LinearImpl, LinearOptions> {
 public:
  using Layer::Layer;
  Linear(Context& context, LinearOptions options, ShardedParameter weight)
      : Layer(std::make_shared<LinearImpl>(context, std::move(options), std::move(weight))) {}
};

}  // namespace axonn
