#include "layers/conv2d_operation.hpp"

#include <array>
#include <tuple>
#include <utility>

#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "axonn/kernels/cpu/convolution_kernels.hpp"
#include "kernels/cpu/image.hpp"
#include "kernels/upsampled_convolution.hpp"
#include "layers/ops/row_sum.hpp"

namespace axonn {
namespace {

int64_t output_size(const Conv2dOptions& options, size_t dim, int64_t size) {
  if (options.doubled) return 2 * size;
  const int64_t steps = size + 2 * options.padding[dim] - options.dilation[dim] * (options.kernel[dim] - 1) - 1;
  return steps < 0 ? 0 : steps / options.stride[dim] + 1;
}

// Shapes: k = in channels, n = out channels, b = images of this rank. k/in means "split over the in
// axis", or all k where that axis does not split them.
class Conv2dOperation : public Operation {
 public:
  Conv2dOperation(Context& context, const Conv2dImpl& layer, ShardedParameter weight,
                  std::optional<ShardedParameter> bias, std::shared_ptr<RowTail> tail,
                  std::shared_ptr<std::function<void()>> finish)
      : context_(context),
        options_(layer.options()),
        output_sum_(layer.output_sum()),
        gradient_sum_(layer.gradient_sum()),
        weight_(std::move(weight)),
        bias_(std::move(bias)),
        tail_(std::move(tail)),
        finish_(std::move(finish)) {
    if (options_.groups > 1) options_.groups /= context.shape()[layer.in_axis()];
  }

  std::string name() const override { return "conv2d " + weight_.name(); }

  Tensor forward(const Tensor& input /* (b, height, width, k/in) */) override {
    input_.keep(input);
    auto weight = weight_.gathered();  // (n/out, kernel h, kernel w, k/in/groups)
    const Tensor bias = bias_ ? *bias_->gathered() : Tensor();
    const std::vector<int64_t> images = conv2d_sizes(options_, input);
    const int64_t pixels = images[1] * images[2], channels = weight->size(0);
    const RowProduct product{
        .rows = images[0] * pixels,
        .width = channels,
        .unit = pixels,
        .options = input.options(),
        .all = [&] { return rows_of(convolve(input, *weight, {})); },
        .some =
            [&](const Tensor& to, Range some) {
              to.copy_(rows_of(convolve(input.narrow(0, some.begin / pixels, some.size() / pixels), *weight, {})));
            },
        .owner = {}};
    const bool later = tail_->takes_bias(input);
    TailedRows output =  // (pixels of all images, n/out)
        context_->shape().size(output_sum_) == 1
            ? with_tail(rows_of(convolve(input, *weight, later ? Tensor() : bias)), tail_, later ? bias : Tensor())
            : sum_with_tail(context_, product, output_sum_, weight_.name(), bias, tail_);
    *finish_ = std::move(output.finish);
    // Not a view: autograd would refuse the in-place adds in finish_.
    return at::_unsafe_view(output.output, {images[0], images[1], images[2], channels});
  }

  Tensor backward(const Tensor& grad_output /* (b, height', width', n/out) */, bool input_needed) override {
    const Tensor input = input_.get(), grad = tail_->gradient(grad_output).contiguous();
    Pending grad_input{Tensor()};
    if (input_needed)
      grad_input = context_->scheduler().all_reduce(input_gradient(grad, input, *weight_.gathered()), gradient_sum_,
                                                    weight_.name());
    weight_.reduce([&](const Tensor& block, bool add) {
      const Tensor sum = weight_gradient(grad, input, block.sizes());
      add ? block.add_(sum) : block.copy_(sum);
    });
    if (bias_) bias_->reduce([&](const Tensor& block, bool add) { put_sum(block, grad, add); });
    return input_needed ? grad_input.wait() : Tensor();
  }

  void release() override {
    input_.reset();
    tail_->release();
  }

 private:
  // Of a convolution that has a choice; nullopt for any other.
  std::optional<ConvolutionKernel> kernel(ConvolutionUse use, const Tensor& image, int64_t in, int64_t out) const {
    if (!has_kernel_choice(options_)) return {};
    return context_->options().convolutions(use, {image.size(1), image.size(2), in, out});
  }

  Tensor convolve(const Tensor& input, const Tensor& weight, const Tensor& bias) const {
    const int64_t in = input.size(3), out = weight.size(0);
    if (in == 0 || out == 0) {
      std::vector<int64_t> sizes = conv2d_sizes(options_, input);
      sizes.push_back(out);
      const Tensor none = at::zeros(sizes, input.options());
      return bias.defined() ? none + bias : none;
    }
    Tensor output;
    if (options_.doubled) {
      output = upsampled_convolution(input, weight);
    } else if (const auto chosen = kernel(ConvolutionUse::output, input, in, out);
               chosen && *chosen != ConvolutionKernel::direct) {
      output = axonn::convolve(*chosen, input, weight);
    } else {
      return channels_last(at::convolution(channels_second(input), channels_second(weight), bias, options_.stride,
                                           options_.padding, options_.dilation, /*transposed=*/false, {0, 0},
                                           options_.groups));
    }
    return bias.defined() ? output.add_(bias) : output;
  }

  Tensor input_gradient(const Tensor& grad, const Tensor& input, const Tensor& weight) const {
    const int64_t in = input.size(3), out = grad.size(3);
    if (in == 0 || out == 0) return at::zeros(input.sizes(), input.options());
    if (options_.doubled) return upsampled_input_gradient(grad, weight);
    if (const auto chosen = kernel(ConvolutionUse::grad_input, input, in, out))
      return convolve_input_gradient(*chosen, grad, weight);
    return channels_last(std::get<0>(gradients(grad, input, weight, {true, false, false})));
  }

  Tensor weight_gradient(const Tensor& grad, const Tensor& input, at::IntArrayRef sizes) const {
    const Tensor weight = at::empty(sizes, input.options());  // LibTorch reads only its sizes
    if (weight.numel() == 0) return weight;
    if (options_.doubled) return upsampled_weight_gradient(grad, input);
    if (const auto chosen = kernel(ConvolutionUse::grad_weight, input, input.size(3), grad.size(3)))
      return convolve_weight_gradient(*chosen, grad, input);
    return std::get<1>(gradients(grad, input, weight, {false, true, false})).permute({0, 2, 3, 1});
  }

  std::tuple<Tensor, Tensor, Tensor> gradients(const Tensor& grad, const Tensor& input, const Tensor& weight,
                                               std::array<bool, 3> wanted) const {
    return at::convolution_backward(channels_second(grad), channels_second(input), channels_second(weight),
                                    std::nullopt, options_.stride, options_.padding, options_.dilation,
                                    /*transposed=*/false, at::IntArrayRef{0, 0}, options_.groups, wanted);
  }

  ContextHandle context_;
  Conv2dOptions options_;  // groups: only those of this rank
  AxisSet output_sum_;
  AxisSet gradient_sum_;
  ShardedParameter weight_;
  std::optional<ShardedParameter> bias_;
  std::shared_ptr<RowTail> tail_;
  std::shared_ptr<std::function<void()>> finish_;  // the rest of the forward
  Saved input_;
};

}  // namespace

std::vector<int64_t> conv2d_sizes(const Conv2dOptions& options, const Tensor& images) {
  return {images.size(0), output_size(options, 0, images.size(1)), output_size(options, 1, images.size(2))};
}

std::unique_ptr<Operation> conv2d_operation(Context& context, const Conv2dImpl& layer, ShardedParameter weight,
                                            std::optional<ShardedParameter> bias, std::shared_ptr<RowTail> tail,
                                            std::shared_ptr<std::function<void()>> finish) {
  return std::make_unique<Conv2dOperation>(context, layer, std::move(weight), std::move(bias), std::move(tail),
                                           std::move(finish));
}

}  // namespace axonn
