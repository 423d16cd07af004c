#include "axonn/layers/conv2d.hpp"

#include <utility>

#include "axonn/core/error.hpp"
#include "layers/conv2d_operation.hpp"
#include "layers/feature_dropout.hpp"
#include "layers/ops/row_sum.hpp"

namespace axonn {
namespace {

constexpr std::string_view kNames[] = {"height", "width"};

// The convolutions that upsampled_convolution.hpp and convolution_choice.hpp support.
bool small_and_padded(const Conv2dOptions& options) {
  constexpr std::array<int64_t, 2> kOne = {1, 1}, kThree = {3, 3};
  return options.kernel == kThree && options.stride == kOne && options.padding == kOne && options.dilation == kOne &&
         options.groups == 1;
}

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
  const std::vector<int64_t> sizes = conv2d_sizes(options_, input.tensor);
  for (const size_t dim : {0, 1})
    AXONN_CHECK(sizes[dim + 1] > 0, kWhere, "a ", kNames[dim], " of ", input.tensor.size(static_cast<int64_t>(dim) + 1),
                " is too small for a kernel of ", options_.kernel[dim], ", dilation ", options_.dilation[dim],
                " and padding ", options_.padding[dim]);
  const auto finish = std::make_shared<std::function<void()>>();
  const Tensor stream = add != nullptr ? add->stream.tensor : Tensor();
  const auto tail =
      make_tail(context(), add, feature_dropout(context(), add), output_layout(), options_.out, sizes, kWhere);
  auto operation = conv2d_operation(context(), *this, weight_, bias_, tail, finish);
  const Tensor output = bias_ ? record(std::move(operation), input.tensor, {&weight_, &*bias_}, {stream})
                              : record(std::move(operation), input.tensor, {&weight_}, {stream});
  return {{output, options_.out, output_layout()}, std::move(*finish)};
}

}  // namespace axonn
