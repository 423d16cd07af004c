#include "layers/ops/fused_group_norm.hpp"

#include <optional>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/gpu/group_norm_images.hpp"
#include "kernels/gpu/layer_norm_rows.hpp"

namespace axonn {
namespace {

class FusedGroupNorm : public StreamOperation {
 public:
  FusedGroupNorm(ShardedParameter weight, ShardedParameter bias, const FusedGroupNormOptions& options,
                 const Tensor& scale_and_shift)
      : weight_(std::move(weight)), bias_(std::move(bias)), options_(options) {
    if (scale_and_shift.defined()) scale_and_shift_.emplace().keep(scale_and_shift.contiguous());
  }

  std::string name() const override { return "fused group_norm " + weight_.name(); }

  Tensor forward(const Tensor& given) override {
    const Tensor input = given.contiguous(), output = at::empty_like(input);
    input_.keep(input);
    statistics_ = at::empty({2, input.size(0), options_.groups}, input.options().dtype(wide_type(input)));
    with_images(input, [&](const NormedImages& images, const Tensor&) {
      group_norm_forward(images, output.data_ptr(), input.get_device());
    });
    return output;
  }

  Tensor backward(const Tensor& grad_output, bool) override {
    const Tensor input = input_.get(), grad = grad_output.contiguous(), grad_input = at::empty_like(input);
    const int64_t channels = input.size(-1);
    const int device = input.get_device();
    const Tensor parts = at::empty({input.numel() == 0 ? 0 : input.size(0), 2, channels}, statistics_.options());
    with_images(input, [&](const NormedImages& images, const Tensor& scale_and_shift) {
      if (scale_and_shift.defined())
        second_ = input.numel() == 0 ? at::zeros_like(scale_and_shift) : at::empty_like(scale_and_shift);
      group_norm_backward(images, grad.const_data_ptr(), grad_input.data_ptr(),
                          second_.defined() ? second_.data_ptr() : nullptr, parts.data_ptr(), device);
    });
    weight_.reduce([&](const Tensor& weight_sum, bool add_weight) {
      bias_.reduce([&](const Tensor& bias_sum, bool add_bias) {
        norm_sums({input.scalar_type(), parts.size(0), channels, parts.const_data_ptr()},
                  {weight_sum.data_ptr(), add_weight}, {bias_sum.data_ptr(), add_bias}, device);
      });
    });
    return grad_input;
  }

  Tensor second_gradient(const Tensor&) override { return std::exchange(second_, Tensor()); }

  void release() override {
    input_.reset();
    if (scale_and_shift_) scale_and_shift_->reset();
  }

 private:
  // pass(images, scale_and_shift), while the weights are there.
  template <typename Pass>
  void with_images(const Tensor& input, const Pass& pass) {
    const auto weight = weight_.gathered(), bias = bias_.gathered();
    const Tensor scale_and_shift = scale_and_shift_ ? scale_and_shift_->get() : Tensor();
    pass(NormedImages{.type = input.scalar_type(),
                      .images = input.size(0),
                      .pixels = input.size(1) * input.size(2),
                      .channels = input.size(3),
                      .groups = options_.groups,
                      .epsilon = options_.epsilon,
                      .silu = options_.silu,
                      .input = input.const_data_ptr(),
                      .weight = weight->const_data_ptr(),
                      .bias = bias->const_data_ptr(),
                      .scale_and_shift = scale_and_shift.defined() ? scale_and_shift.const_data_ptr() : nullptr,
                      .mean = statistics_[0].data_ptr(),
                      .reciprocal_deviation = statistics_[1].data_ptr()},
         scale_and_shift);
  }

  ShardedParameter weight_;
  ShardedParameter bias_;
  FusedGroupNormOptions options_;
  Saved input_;
  std::optional<Saved> scale_and_shift_;
  Tensor statistics_;  // (2, batch, groups): mean, reciprocal deviation, in the type of wide()
  Tensor second_;      // the gradient of scale_and_shift, from backward() to second_gradient()
};

}  // namespace

std::unique_ptr<Operation> fused_group_norm(ShardedParameter weight, ShardedParameter bias,
                                            const FusedGroupNormOptions& options, const Tensor& scale_and_shift) {
  return std::make_unique<FusedGroupNorm>(std::move(weight), std::move(bias), options, scale_and_shift);
}

bool fused_group_norm_fits(const Tensor& images, int64_t groups, at::ScalarType gradients) {
  return gradients == wide_type(images) && group_norm_images_fit(images.scalar_type(), images.size(-1), groups);
}

}  // namespace axonn
