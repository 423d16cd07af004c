#include "axonn/layers/conv2d.hpp"

#include <torch/nn/module.h>

#include "layers/layer_fixture.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

// LibTorch's own convolution of (batch, height, width, channels), weight (out, kernel h, kernel w,
// in / groups).
at::Tensor serial(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                  const Conv2dOptions& options) {
  const at::Tensor image = input.permute({0, 3, 1, 2});
  return at::conv2d(options.doubled ? at::upsample_nearest2d(image, {2 * image.size(2), 2 * image.size(3)}) : image,
                    weight.permute({0, 3, 1, 2}), bias, options.stride, options.padding, options.dilation,
                    options.groups)
      .permute({0, 2, 3, 1});
}

// Output and all gradients of one layer, against LibTorch's convolution of the whole tensors.
void expect_equals_serial(const GridShape& grid, const Conv2dOptions& options,
                          const std::array<int64_t, 3>& images = {9, 7, 6}, const ConvolutionChoice& choice = {}) {
  Context context(test_environment(), grid, {.dtype = at::kDouble, .convolutions = choice});
  Conv2d layer(context, options);
  const Parameters parameters = context.materialize(*layer, 1);
  const at::Tensor weight =
      whole_tensor(1, {options.out, options.kernel[0], options.kernel[1], options.in / options.groups})
          .requires_grad_();
  const at::Tensor bias = whole_tensor(2, {options.out}).requires_grad_();
  fill(context, parameters["weight"], weight);
  if (options.bias) fill(context, parameters["bias"], bias);
  const at::Tensor input = whole_tensor(3, {images[0], images[1], images[2], options.in}).requires_grad_();
  const at::Tensor output = serial(input, weight, options.bias ? std::optional(bias) : std::nullopt, options);
  const at::Tensor grad = whole_tensor(4, output.sizes());
  output.backward(grad);

  Value mine = my_value(context, input.detach(), layer->input_layout());
  mine.tensor.requires_grad_();
  auto step = context.begin_step();
  const Value result = layer(mine);
  result.tensor.backward(my_value(context, grad, layer->output_layout()).tensor);
  step.finish();
  const std::string what = "conv " + std::to_string(options.in) + " -> " + std::to_string(options.out) + " in " +
                           std::to_string(options.groups) + " groups" + (options.transposed ? " transposed" : "") +
                           " on " + grid.to_string();
  EXPECT_EQ(result.layout, layer->output_layout());
  expect_near(result.tensor.detach(), my_value(context, output.detach(), result.layout).tensor, what + ": output");
  expect_near(mine.tensor.grad(), my_value(context, input.grad(), layer->input_layout()).tensor,
              what + ": input gradient");
  expect_gradient(context, parameters["weight"], weight.grad(), what + ": weight gradient");
  if (options.bias) expect_gradient(context, parameters["bias"], bias.grad(), what + ": bias gradient");
}

void expect_equals_serial_everywhere(Conv2dOptions options) {
  for (const GridShape& grid : every_grid())
    for (const bool transposed : {false, true})
      for (const bool bias : {false, true}) {
        options.transposed = transposed;
        options.bias = bias;
        expect_equals_serial(grid, options);
      }
}

TEST(Conv2dOnEveryGrid, EqualsSerial) { expect_equals_serial_everywhere({.in = 8, .out = 16, .padding = {1, 1}}); }

TEST(Conv2dOnEveryGrid, EqualsSerialOverUnevenChannelsStrideAndDilation) {
  expect_equals_serial_everywhere(
      {.in = 5, .out = 9, .kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}});
  expect_equals_serial_everywhere({.in = 3, .out = 2, .kernel = {1, 1}, .stride = {2, 2}});  // ranks without channels
}

TEST(Conv2dOnEveryGrid, DoublesTheImage) {
  expect_equals_serial_everywhere({.in = 8, .out = 12, .padding = {1, 1}, .doubled = true});
  expect_equals_serial_everywhere({.in = 3, .out = 2, .padding = {1, 1}, .doubled = true});  // ranks without channels
}

TEST(Conv2dOnEveryGrid, EqualsSerialWithFewerProducts) {
  ConvolutionChoice choice;  // Winograd's for all channels that a rank may hold
  for (int64_t in = 1; in <= 40; ++in)
    for (int64_t out = 1; out <= 66; ++out)
      for (const auto use : {ConvolutionUse::output, ConvolutionUse::grad_input, ConvolutionUse::grad_weight})
        choice.set(use, {11, 10, in, out}, ConvolutionKernel::winograd);
  for (const GridShape& grid : every_grid())
    for (const bool transposed : {false, true})
      expect_equals_serial(grid, {.in = 40, .out = 66, .padding = {1, 1}, .transposed = transposed}, {16, 11, 10},
                           choice);
}

TEST(Conv2dOnEveryGrid, TakesAndGivesAllChannelsWhereAsked) {
  expect_equals_serial_everywhere({.in = 3, .out = 10, .padding = {1, 1}, .whole_input = true});
  expect_equals_serial_everywhere({.in = 10, .out = 3, .padding = {1, 1}, .whole_output = true});
  expect_equals_serial_everywhere({.in = 3, .out = 6, .whole_input = true, .whole_output = true});
}

TEST(Conv2dOnEveryGrid, SplitsEverySegmentOnItsOwn) {
  expect_equals_serial_everywhere(
      {.in = 11, .out = 15, .padding = {1, 1}, .input_segments = {6, 5}, .segments = {5, 5, 5}});
}

TEST(Conv2dOnEveryGrid, EqualsSerialInGroupsThatDivide) {
  for (const GridShape& grid : every_grid())
    for (const bool transposed : {false, true})
      for (const int64_t groups : {2, 3, 8, 24})
        if (groups % grid[transposed ? Axis::x : Axis::y] == 0)
          expect_equals_serial(
              grid,
              {.in = 24, .out = 48, .stride = {2, 1}, .padding = {1, 2}, .groups = groups, .transposed = transposed});
}

TEST(Conv2dOnEveryGrid, KeepsTheTypeOfBf16) {
  for (const GridShape& grid : every_grid()) {
    Context context(test_environment(), grid, {.dtype = at::kBFloat16});
    Conv2d layer(context, {.in = 8, .out = 4});
    const Parameters parameters = context.materialize(*layer, 1);
    auto step = context.begin_step();
    const Value input = my_value(context, whole_tensor(1, {8, 5, 5, 8}).to(at::kBFloat16), layer->input_layout());
    const Value output = layer(input);
    output.tensor.sum().backward();
    step.finish();
    EXPECT_EQ(output.tensor.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(parameters["weight"].gradient().isfinite().all().item<bool>());
  }
}

TEST(Conv2dErrors, NameWhatIsWrongAndWhatIsLegal) {
  Context context = Context::plan({.x = 2, .y = 4});
  EXPECT_USER_ERROR(Conv2d(context, {.in = 8, .out = 8, .groups = 3}), "3 groups must divide in and out");
  EXPECT_USER_ERROR(
      Conv2d(context, {.in = 24, .out = 48, .groups = 6}),
      "6 groups cannot be split over axis y of 4 ranks (grid 2x4x1x1); legal for 24 -> 48 channels: 1, 4, 8, 12, 24");
  EXPECT_USER_ERROR(Conv2d(context, {.in = 8, .out = 8, .groups = 4, .whole_output = true}), "keeps the layout");
  EXPECT_USER_ERROR(Conv2d(context, {.in = 8, .out = 8, .stride = {1, 0}}), "along the width");
  EXPECT_USER_ERROR(Conv2d(context, {.in = 8, .out = 8, .doubled = true}), "doubled for kernels of 3x3, padded by 1");
  Conv2d layer(context, {.in = 8, .out = 8, .kernel = {3, 5}});
  const auto image = [](int64_t height, int64_t width, int64_t channels) {
    return at::zeros({1, height, width, channels});
  };
  EXPECT_USER_ERROR(layer(Value{image(4, 4, 2), 8, layer->input_layout()}),
                    "a width of 4 is too small for a kernel of 5");
  EXPECT_USER_ERROR(layer(Value{image(8, 8, 8), 8, layer->input_layout()}), "must hold 2 of the 8 channels");
  EXPECT_USER_ERROR(layer(Value{image(8, 8, 4), 8, Layout::over(Axis::x)}), "redistribute");
}

}  // namespace
}  // namespace axonn
