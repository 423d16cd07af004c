#include "scale_norm.hpp"

#include <memory>
#include <string>
#include <utility>

#include <torch/types.h>

#include <axonn/layers/context.hpp>
#include <axonn/layers/layer_operation.hpp>

namespace {

class ScaleNormOperation : public axonn::Operation {
 public:
  ScaleNormOperation(axonn::Context& context, axonn::ShardedParameter weight, const ScaleNormOptions& options)
      : context_(context), weight_(std::move(weight)), options_(options) {}
  std::string name() const override { return "scale_norm " + weight_.name(); }

  torch::Tensor forward(const torch::Tensor& input) override {
    input_.keep(input);
    roots_ = mean(input.square(), "scale_norm").wait().add_(options_.epsilon).rsqrt_();
    return input * roots_ * *weight_.gathered();
  }

  // With d = mean(dy x): dw = sum over rows of n d r, dx = w r (dy - x d r^2).
  torch::Tensor backward(const torch::Tensor& grad_output, bool input_needed) override {
    const torch::Tensor input = input_.get();
    axonn::Pending coming = mean(grad_output * input, "scale_norm backward");  // its bytes move
    const torch::Tensor scaled = grad_output * roots_;                         // while this is computed
    const torch::Tensor means = coming.wait() * roots_;
    const torch::Tensor sum = means.sum().mul_(static_cast<double>(options_.features)).view({1});
    weight_.reduce([&](const torch::Tensor& block, bool add) { add ? block.add_(sum) : block.copy_(sum); });
    if (!input_needed) return {};
    return scaled.sub_(input * roots_ * means * roots_).mul_(*weight_.gathered());
  }

  void release() override { input_.reset(); }

 private:
  // The mean over all features of a row: (..., 1). Each rank has the sum of its own ones.
  axonn::Pending mean(const torch::Tensor& products, const char* tag) {
    const torch::Tensor sums = products.sum(-1, /*keepdim=*/true).div_(static_cast<double>(options_.features));
    return context_->scheduler().all_reduce(sums, options_.axis, tag);
  }

  axonn::ContextHandle context_;
  axonn::ShardedParameter weight_;
  ScaleNormOptions options_;
  axonn::Saved input_;
  torch::Tensor roots_;  // r, (..., 1)
};

}  // namespace

ScaleNormImpl::ScaleNormImpl(axonn::Context& context, ScaleNormOptions options)
    : ShardedModule(context),
      options_(options),
      weight_(register_sharded(
          "weight", {.spec = {.dims = {axonn::Dim::whole(1)}}, .initial = axonn::Initial::ones(), .decay = false})) {}

axonn::Value ScaleNormImpl::forward(const axonn::Value& input) {
  check_layout(input, options_.features, axonn::Layout::over(options_.axis), "own.scale_norm");
  auto operation = std::make_unique<ScaleNormOperation>(context(), weight_, options_);
  return {axonn::record(std::move(operation), input.tensor, {&weight_}), input.features, input.layout};
}
