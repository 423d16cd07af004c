#include "layers/ops/fused_layer_norm.hpp"

#include <tuple>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_layer_norm.h>

#include "axonn/core/error.hpp"
#include "kernels/gpu/layer_norm_rows.hpp"

namespace axonn {
namespace {

class FusedLayerNorm : public StreamOperation {
 public:
  FusedLayerNorm(ShardedParameter weight, ShardedParameter bias, double epsilon)
      : weight_(std::move(weight)), bias_(std::move(bias)), epsilon_(epsilon) {}

  std::string name() const override { return "fused layer_norm " + weight_.name(); }

  Tensor forward(const Tensor& given) override {
    const Tensor input = given.contiguous();
    input_.keep(input);
    Tensor output;
    std::tie(output, mean_, reciprocal_deviation_) =
        at::native_layer_norm(input, {input.size(-1)}, *weight_.gathered(), *bias_.gathered(), epsilon_);
    return output;
  }

  void take_stream_gradient(Tensor gradient) override {
    if (gradient.defined()) stream_gradient_ = gradient.contiguous();
  }

  Tensor backward(const Tensor& grad_output, bool) override {
    AXONN_ASSERT(grad_output.defined(), "the branch of '", name(), "' has no gradient");
    const Tensor input = input_.get(), grad = grad_output.contiguous(), added = std::move(stream_gradient_),
                 grad_input = at::empty_like(input);
    const auto weight = weight_.gathered();
    const LayerNormRows rows{.type = input.scalar_type(),
                             .rows = mean_.numel(),
                             .width = input.size(-1),
                             .input = input.const_data_ptr(),
                             .mean = mean_.const_data_ptr(),
                             .reciprocal_deviation = reciprocal_deviation_.const_data_ptr(),
                             .weight = weight->const_data_ptr()};
    const int device = input.get_device();
    const Tensor parts = at::empty({layer_norm_parts(rows.rows), 2, rows.width}, mean_.options());
    layer_norm_backward(rows, grad.const_data_ptr(), added.defined() ? added.const_data_ptr() : nullptr,
                        grad_input.data_ptr(), parts.data_ptr(), device);
    weight_.reduce([&](const Tensor& weight_sum, bool add_weight) {
      bias_.reduce([&](const Tensor& bias_sum, bool add_bias) {
        norm_sums({rows.type, parts.size(0), rows.width, parts.const_data_ptr()}, {weight_sum.data_ptr(), add_weight},
                  {bias_sum.data_ptr(), add_bias}, device);
      });
    });
    return grad_input;
  }

  void release() override { input_.reset(); }

 private:
  ShardedParameter weight_;
  ShardedParameter bias_;
  double epsilon_;
  Saved input_;
  Tensor mean_, reciprocal_deviation_;  // (rows), in the type of wide()
  Tensor stream_gradient_;              // undefined: none
};

}  // namespace

std::unique_ptr<Operation> fused_layer_norm(ShardedParameter weight, ShardedParameter bias, double epsilon) {
  return std::make_unique<FusedLayerNorm>(std::move(weight), std::move(bias), epsilon);
}

bool fused_layer_norm_fits(const Tensor& rows, at::ScalarType gradients) {
  return gradients == wide_type(rows) && layer_norm_rows_fit(rows.scalar_type(), rows.size(-1));
}

}  // namespace axonn
