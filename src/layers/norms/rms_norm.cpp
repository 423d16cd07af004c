#include "axonn/layers/norms/rms_norm.hpp"

#include <utility>

#include "layers/norms/rms_norm_rows.hpp"
#include "layers/ops/stream_rows.hpp"

namespace axonn {
namespace {

class RmsNormOperation : public Operation {
 public:
  RmsNormOperation(Context& context, ShardedParameter weight, const RmsNormOptions& options, AxisSet rows)
      : context_(context), weight_(std::move(weight)), options_(options), rows_(rows) {}
  std::string name() const override { return "rms_norm " + weight_.name(); }

  Tensor forward(const Tensor& input) override {
    input_.keep(input);
    const auto weight = weight_.gathered();
    if (context_->shape()[options_.axis] == 1) {
      auto [output, roots] = rms_norm(input, *weight, options_.epsilon);
      roots_ = std::move(roots);
      return output;
    }
    roots_ = mean(square_sums(input), "rms_norm").wait().add_(options_.epsilon).rsqrt_();
    return rms_normalised(input, roots_, *weight);
  }

  Tensor backward(const Tensor& grad_output, bool) override {
    const Tensor input = input_.get(), weight = *weight_.gathered();
    const auto [rows, weights] = rms_gradient_sums(grad_output, input, roots_, weight);
    Pending means = mean(rows, "rms_norm backward");
    reduce_over(context_->scheduler(), rows_, weight_,
                [&, sums = weights](const Tensor& block, bool add) { put_sum(block, sums, add); });
    return rms_gradient(grad_output, input, roots_, weight, means.wait());
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
  AxisSet rows_;  // ranks along it divide the rows
  Saved input_;
  Tensor roots_;  // per row, 1 / sqrt(mean of squares + epsilon)
};

}  // namespace

RmsNormImpl::RmsNormImpl(Context& context, RmsNormOptions options)
    : NormImpl(context),
      options_(options),
      weight_(register_sharded("weight", {.spec = {.dims = {Dim::split(options.features, options.axis)}},
                                          .initial = Initial::ones(),
                                          .decay = false})) {}

Value RmsNormImpl::forward(const Value& input) {
  check_layout(input, options_.features, Layout::over(options_.axis).with_rows(input.layout.rows), "layers.rms_norm");
  auto operation = std::make_unique<RmsNormOperation>(context(), weight_, options_, input.layout.rows_axis());
  return {record(std::move(operation), input.tensor, {&weight_}), input.features, input.layout};
}

}  // namespace axonn
