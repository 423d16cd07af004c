#include "axonn/layers/conv2d.hpp"

#include <utility>

#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "axonn/core/error.hpp"
#include "axonn/kernels/cpu/convolution_kernels.hpp"
#include "layers/feature_dropout.hpp"
#include "layers/operation.hpp"
#include "kernels/cpu/image.hpp"
#include "layers/ops/row_sum.hpp"
#include "kernels/upsampled_convolution.hpp"

namespace axonn {
namespace {

constexpr std::string_view kNames[] = {"height", "width"};

int64_t output_size(const Conv2dOptions& options, size_t dim, int64_t size) {
  if (options.doubled) return 2 * size;
  const int64_t steps = size + 2 * options.padding[dim] - options.dilation[dim] * (options.kernel[dim] - 1) - 1;
  return steps < 0 ? 0 : steps / options.stride[dim] + 1;
}

// (batch, height', width')
std::vector<int64_t> output_sizes(const Conv2dOptions& options, const Tensor& images) {
  return {images.size(0), output_size(options, 0, images.size(1)), output_size(options, 1, images.size(2))};
}

// The convolutions that upsampled_convolution.hpp and convolution_choice.hpp support.
bool small_and_padded(const Conv2dOptions& options) {
  constexpr std::array<int64_t, 2> kOne = {1, 1}, kThree = {3, 3};
  return options.kernel == kThree && options.stride == kOne && options.padding == kOne && options.dilation == kOne &&
         options.groups == 1;
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
    const std::vector<int64_t> images = output_sizes(options_, input);
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
      std::vector<int64_t> sizes = output_sizes(options_, input);
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

void check_options(const Context& context, const Conv2dOptions& options, Axis in_axis) {
  constexpr const char* kWhere = "layers.conv2d";
  AXONN_CHECK(options.in > 0 && options.out > 0 && options.groups > 0, kWhere,
              "in, out and groups must be positive, got ", options.in, ", ", options.out, " and ", options.groups);
  for (const size_t dim : {0, 1})
    AXONN_CHECK(
        options.kernel[dim] > 0 && options.stride[dim] > 0 && options.dilation[dim] > 0 && options.padding[dim] >= 0,
        kWhere, "along the ", kNames[dim],
        " kernel, stride and dilation must be positive and padding not negative, got ", options.kernel[dim], ", ",
        options.stride[dim], ", ", options.dilation[dim], " and ", options.padding[dim]);
  AXONN_CHECK(!options.doubled || small_and_padded(options), kWhere,
              "an image is doubled for kernels of 3x3, padded by 1, without stride, dilation and groups");
  if (options.groups == 1) return;
  AXONN_CHECK(options.in % options.groups == 0 && options.out % options.groups == 0, kWhere, options.groups,
              " groups must divide in and out, got ", options.in, " and ", options.out, " channels");
  AXONN_CHECK(
      !options.whole_input && !options.whole_output && options.input_segments.empty() && options.segments.empty(),
      kWhere, "a convolution in groups keeps the layout of its input: no whole input or output, no segments");
  const int size = context.shape()[in_axis];
  if (options.groups % size == 0) return;
  std::string legal;
  for (int64_t groups = size; groups <= std::min(options.in, options.out); groups += size)
    if (options.in % groups == 0 && options.out % groups == 0)
      legal += (legal.empty() ? "" : ", ") + std::to_string(groups);
  throw UserError(kWhere,
                  detail::concatenate(options.groups, " groups cannot be split over axis ", to_string(in_axis), " of ",
                                      size, " ranks (grid ", context.shape().to_string(), "); legal for ", options.in,
                                      " -> ", options.out, " channels: 1", legal.empty() ? "" : ", ", legal));
}

}  // namespace

bool has_kernel_choice(const Conv2dOptions& options) { return small_and_padded(options) && !options.doubled; }

Conv2dImpl::Conv2dImpl(Context& context, Conv2dOptions options)
    : ShardedModule(context),
      options_((check_options(context, options, options.transposed ? Axis::x : Axis::y), std::move(options))),
      weight_(register_sharded("weight", {.spec = weight_spec(), .initial = options_.weight_initial})) {
  if (options_.bias)
    bias_ = register_sharded(
        "bias",
        {.spec = {.dims = {output_layout().dim(options_.out)}}, .initial = options_.bias_initial, .decay = false});
}

Layout Conv2dImpl::input_layout() const {
  return options_.whole_input ? Layout::replicated() : Layout::over(in_axis(), options_.input_segments);
}

Layout Conv2dImpl::output_layout() const {
  if (options_.groups > 1) return input_layout();
  return options_.whole_output ? Layout::replicated() : Layout::over(out_axis(), options_.segments);
}

ShardSpec Conv2dImpl::weight_spec() const {
  const Dim in = options_.groups > 1 ? Dim::whole(options_.in / options_.groups) : input_layout().dim(options_.in);
  return {
      .dims = {output_layout().dim(options_.out), Dim::whole(options_.kernel[0]), Dim::whole(options_.kernel[1]), in},
      .over_z = true};
}

Value Conv2dImpl::forward(const Value& input) { return launch(input).wait(); }

PendingValue Conv2dImpl::launch(const Value& input) { return launch(input, nullptr); }

PendingValue Conv2dImpl::launch(const Value& input, const AddTo& add) { return launch(input, &add); }

PendingValue Conv2dImpl::launch(const Value& input, const AddTo* add) {
  constexpr const char* kWhere = "layers.conv2d";
  check_layout(input, options_.in, input_layout(), kWhere);
  AXONN_CHECK(input.tensor.dim() == 4, kWhere, "images must be (batch, height, width, channels), got ",
              input.tensor.dim(), " dims");
  const int64_t channels = input_layout().dim(options_.in).local_size(context().shape(), context().at());
  AXONN_CHECK(input.tensor.size(3) == channels, kWhere, "images must hold ", channels, " of the ", options_.in,
              " channels on this rank (", input.layout.to_string(), "), got ", input.tensor.size(3));
  const std::vector<int64_t> sizes = output_sizes(options_, input.tensor);
  for (const size_t dim : {0, 1})
    AXONN_CHECK(sizes[dim + 1] > 0, kWhere, "a ", kNames[dim], " of ", input.tensor.size(static_cast<int64_t>(dim) + 1),
                " is too small for a kernel of ", options_.kernel[dim], ", dilation ", options_.dilation[dim],
                " and padding ", options_.padding[dim]);
  const auto finish = std::make_shared<std::function<void()>>();
  const Tensor stream = add != nullptr ? add->stream.tensor : Tensor();
  const auto tail =
      make_tail(context(), add, feature_dropout(context(), add), output_layout(), options_.out, sizes, kWhere);
  auto operation = std::make_unique<Conv2dOperation>(context(), *this, weight_, bias_, tail, finish);
  const Tensor output = bias_ ? record(std::move(operation), input.tensor, {&weight_, &*bias_}, {stream})
                              : record(std::move(operation), input.tensor, {&weight_}, {stream});
  return {{output, options_.out, output_layout()}, std::move(*finish)};
}

}  // namespace axonn
