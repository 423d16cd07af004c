#include "axonn/layers/norms/layer_norm.hpp"

#include <tuple>

#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/var_mean.h>

#include "layers/ops/fused_layer_norm.hpp"
#include "layers/operation.hpp"

namespace axonn {
namespace {

// Base of both operations below. Statistics are per row.
class NormOperation : public Operation {
 public:
  NormOperation(Context& context, ShardedParameter weight, ShardedParameter bias, AxisSet rows)
      : context_(context), weight_(std::move(weight)), bias_(std::move(bias)), rows_(rows) {}
  std::string name() const override { return "layer_norm " + weight_.name(); }
  void release() override { input_.reset(); }

 protected:
  void reduce(Tensor grad_weight, Tensor grad_bias) {
    if (!rows_.empty() && (weight_.trained() || bias_.trained())) {
      const Tensor mine = at::stack({wide(grad_weight), wide(grad_bias)});
      const Tensor sums = context_->scheduler().all_reduce(mine, rows_, "layer_norm weights").wait();
      grad_weight = sums[0], grad_bias = sums[1];
    }
    weight_.reduce([&](const Tensor& block, bool add) { add ? block.add_(grad_weight) : block.copy_(grad_weight); });
    bias_.reduce([&](const Tensor& block, bool add) { add ? block.add_(grad_bias) : block.copy_(grad_bias); });
  }

  ContextHandle context_;
  ShardedParameter weight_;
  ShardedParameter bias_;
  AxisSet rows_;  // ranks along it divide the rows
  Saved input_;
  Tensor mean_;
  Tensor reciprocal_deviation_;
};

// All features on this rank: LibTorch's own kernels.
class WholeNorm : public NormOperation {
 public:
  WholeNorm(Context& context, ShardedParameter weight, ShardedParameter bias, double epsilon, AxisSet rows)
      : NormOperation(context, std::move(weight), std::move(bias), rows), epsilon_(epsilon) {}

  Tensor forward(const Tensor& input) override {
    input_.keep(input);
    Tensor output;
    std::tie(output, mean_, reciprocal_deviation_) =
        at::native_layer_norm(input, {input.size(-1)}, *weight_.gathered(), *bias_.gathered(), epsilon_);
    return output;
  }

  Tensor backward(const Tensor& grad_output, bool input_needed) override {
    const Tensor input = input_.get();
    const auto [grad_input, grad_weight, grad_bias] =
        at::native_layer_norm_backward(grad_output.contiguous(), input, {input.size(-1)}, mean_, reciprocal_deviation_,
                                       *weight_.gathered(), *bias_.gathered(), {input_needed, true, true});
    reduce(grad_weight, grad_bias);
    return grad_input;
  }

 private:
  double epsilon_;
};

// Features split over an axis.
class SplitNorm : public NormOperation {
 public:
  SplitNorm(Context& context, ShardedParameter weight, ShardedParameter bias, const LayerNormOptions& options,
            Tensor shares, AxisSet rows)
      : NormOperation(context, std::move(weight), std::move(bias), rows),
        options_(options),
        shares_(std::move(shares)) {}

  Tensor forward(const Tensor& input) override {
    input_.keep(input);
    const auto [variance, mean] = at::var_mean(wide(input), at::IntArrayRef{-1}, /*correction=*/0, /*keepdim=*/true);
    // (ranks, 2, ..., 1)
    const Tensor all =
        context_->scheduler().all_gather(at::stack({mean, variance}), options_.axis, "layer_norm").wait();
    merge(all.select(1, 0), all.select(1, 1));
    return (input - mean_)
        .mul_(reciprocal_deviation_)
        .mul_(*weight_.gathered())
        .add_(*bias_.gathered())
        .to(input.scalar_type());
  }

  Tensor backward(const Tensor& grad_output, bool) override {
    const Tensor normalised = (input_.get() - mean_).mul_(reciprocal_deviation_);
    const Tensor grad = wide(grad_output) * *weight_.gathered();
    Pending pending = context_->scheduler().all_reduce(
        at::stack({grad.sum(-1, /*keepdim=*/true), (grad * normalised).sum(-1, /*keepdim=*/true)}), options_.axis,
        "layer_norm backward");
    reduce(rows_of(grad_output * normalised).sum(0), rows_of(grad_output).sum(0));
    const Tensor sums = pending.wait().div_(static_cast<double>(options_.features));
    return (grad - sums[0]).sub_(normalised * sums[1]).mul_(reciprocal_deviation_).to(grad_output.scalar_type());
  }

 private:
  // Chan et al.: M2 = sum of the parts' M2 + sum of count * (mean of the part - mean)^2.
  void merge(const Tensor& means, const Tensor& variances) {
    std::vector<int64_t> shape(static_cast<size_t>(means.dim()), 1);
    shape[0] = means.size(0);
    const Tensor share = shares_.view(shape);
    mean_ = (means * share).sum(0);
    const Tensor variance = ((variances + (means - mean_).square_()) * share).sum(0);
    reciprocal_deviation_ = (variance + options_.epsilon).rsqrt_();
  }

  LayerNormOptions options_;
  Tensor shares_;
};

// Fraction of the features that each rank along the axis holds.
Tensor shares_of_ranks(const Context& context, const LayerNormOptions& options) {
  std::vector<double> shares;
  Coordinate member = context.at();
  for (int i = 0; i < context.shape()[options.axis]; ++i) {
    member[options.axis] = i;
    shares.push_back(
        static_cast<double>(Dim::split(options.features, options.axis).local_size(context.shape(), member)) /
        static_cast<double>(options.features));
  }
  return at::tensor(shares, at::kDouble);
}

}  // namespace

LayerNormImpl::LayerNormImpl(Context& context, LayerNormOptions options)
    : NormImpl(context),
      options_(options),
      weight_(register_sharded("weight", {.spec = {.dims = {Dim::split(options.features, options.axis)}},
                                          .initial = Initial::ones(),
                                          .decay = false})),
      bias_(
          register_sharded("bias", {.spec = {.dims = {Dim::split(options.features, options.axis)}}, .decay = false})) {}

Value LayerNormImpl::forward(const Value& input) { return branch(input).normalised; }

LayerNormImpl::Branch LayerNormImpl::branch(const Value& input) {
  check_layout(input, options_.features, Layout::over(options_.axis).with_rows(input.layout.rows), "layers.layer_norm");
  const bool whole = context().shape()[options_.axis] == 1;
  const AxisSet rows = input.layout.rows_axis();
  if (whole && rows.empty() && input.tensor.is_cuda() && context().options().kernels.layer_norm &&
      fused_layer_norm_fits(input.tensor, context().arena_types().gradients)) {
    const Branched branched =
        record_branch(fused_layer_norm(weight_, bias_, options_.epsilon), input.tensor, {&weight_, &bias_});
    return {{branched.stream, input.features, input.layout}, {branched.branch, input.features, input.layout}};
  }
  std::unique_ptr<Operation> operation;
  if (whole) {
    operation = std::make_unique<WholeNorm>(context(), weight_, bias_, options_.epsilon, rows);
  } else {
    if (!shares_.defined()) shares_ = shares_of_ranks(context(), options_).to(wide(input.tensor).options());
    operation = std::make_unique<SplitNorm>(context(), weight_, bias_, options_, shares_, rows);
  }
  return {input, {record(std::move(operation), input.tensor, {&weight_, &bias_}), input.features, input.layout}};
}

}  // namespace axonn
