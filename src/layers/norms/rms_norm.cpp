#include "axonn/layers/norms/rms_norm.hpp"

#include <utility>

#include <ATen/ops/sum.h>

#include "layers/operation.hpp"

namespace axonn {
namespace {

class RmsNormOperation : public Operation {
 public:
  RmsNormOperation(Context& context, ShardedParameter weight, const RmsNormOptions& options)
      : context_(context), weight_(std::move(weight)), options_(options) {}
  std::string name() const override { return "rms_norm " + weight_.name(); }

  Tensor forward(const Tensor& input) override {
    input_.keep(input);
    const Tensor x = wide(input);
    reciprocal_root_ = mean(x.square().sum(-1, /*keepdim=*/true), "rms_norm").wait().add_(options_.epsilon).rsqrt_();
    return (x * reciprocal_root_).mul_(*weight_.gathered()).to(input.scalar_type());
  }

  Tensor backward(const Tensor& grad_output, bool) override {
    const Tensor normalised = wide(input_.get()) * reciprocal_root_, grad = wide(grad_output);
    const Tensor grad_normalised = grad * *weight_.gathered();
    Pending sum = mean((grad_normalised * normalised).sum(-1, /*keepdim=*/true), "rms_norm backward");
    weight_.reduce([&](const Tensor& block, bool add) { put_sum(block, grad * normalised, add); });
    return (grad_normalised - normalised * sum.wait()).mul_(reciprocal_root_).to(grad_output.scalar_type());
  }

  void release() override { input_.reset(); }

 private:
  // Mean over all features of a row, from this rank's sums.
  Pending mean(Tensor sums, std::string_view tag) {
    return context_->scheduler().all_reduce(sums.div_(static_cast<double>(options_.features)), options_.axis, tag);
  }

  ContextHandle context_;
  ShardedParameter weight_;
  RmsNormOptions options_;
  Saved input_;
  Tensor reciprocal_root_;  // per row
};

}  // namespace

RmsNormImpl::RmsNormImpl(Context& context, RmsNormOptions options)
    : NormImpl(context),
      options_(options),
      weight_(register_sharded("weight", {.spec = {.dims = {Dim::split(options.features, options.axis)}},
                                          .initial = Initial::ones(),
                                          .decay = false})) {}

Value RmsNormImpl::forward(const Value& input) {
  check_layout(input, options_.features, Layout::over(options_.axis), "layers.rms_norm");
  return {record(std::make_unique<RmsNormOperation>(context(), weight_, options_), input.tensor, {&weight_}),
          input.features, input.layout};
}

}  // namespace axonn
