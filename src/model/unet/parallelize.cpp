#include "axonn/model/unet/parallelize.hpp"

#include <cmath>
#include <set>

#include "axonn/layers/context.hpp"

namespace axonn {
namespace {

int64_t inputs_of_an_output(const LinearOptions& options) { return options.in; }
int64_t inputs_of_an_output(const Conv2dOptions& options) { return options.in * options.kernel[0] * options.kernel[1]; }

// PyTorch's defaults, as in improved diffusion: weight and bias uniform within +-1/sqrt(inputs).
template <typename Options>
Options by_inputs(Options options) {
  options.weight_initial = options.bias_initial =
      Initial::uniform(1 / std::sqrt(static_cast<double>(inputs_of_an_output(options))));
  return options;
}

template <typename Options>
Options zeroed(Options options) {
  options.weight_initial = options.bias_initial = Initial::zeros();
  return options;
}

Layout stream(const UnetStage& stage) {
  const Axis axis = channel_axis(stage.level);
  return stage.skip > 0 ? Layout::over(axis, {stage.skip, stage.in - stage.skip}) : Layout::over(axis);
}

// Plain layers go from Y to X.
bool transposed(Axis from) { return from == Axis::x; }

Conv2dOptions conv3x3(int64_t in, int64_t out, Axis from) {
  return by_inputs(Conv2dOptions{.in = in, .out = out, .padding = {1, 1}, .transposed = transposed(from)});
}

}  // namespace

// Inside a block one layer moves the stream to the other axis and the next one moves it back.
// Levels alternate between the axes (channel_axis), so every skip is on the axis where it is
// needed. Only the 1x1 convolution beside a block whose channels change must be redistributed.
UnetPlan parallelize_unet(const UnetShape& shape) {
  const int64_t e = shape.embedding();
  Conv2dOptions first = conv3x3(shape.channels, shape.base, Axis::x),
                last = zeroed(conv3x3(shape.base, shape.output_channels(), Axis::y));
  first.whole_input = true;
  last.whole_output = true;
  last.in = shape.multipliers.front() * shape.base;
  return {
      .time_in = by_inputs(LinearOptions{.in = shape.base, .out = e}),                              // whole -> Y -> X
      .time_out = by_inputs(LinearOptions{.in = e, .out = e, .transposed = true}),                  // X -> Y
      .classes = {.vocabulary = shape.classes, .features = e, .initial = Initial::normal(1.0)},     // Y
      .first = first,                                                                               // whole -> Y
      .last_norm = {.groups = shape.groups, .channels = last.in, .layout = Layout::over(Axis::y)},  // Y
      .last = last,                                                                                 // Y -> whole
  };
}

// The stream is over A; the other axis is B.
UnetResidualPlan parallelize_residual(const UnetShape& shape, const UnetStage& stage) {
  const Axis a = channel_axis(stage.level), b = other_tensor_axis(a);
  Conv2dOptions in = conv3x3(stage.in, stage.out, a);
  in.input_segments = stream(stage).segments;
  Conv2dOptions shortcut = in;
  shortcut.kernel = {1, 1};
  shortcut.padding = {0, 0};
  return {
      .norm_in = {.groups = shape.groups, .channels = stage.in, .layout = stream(stage)},  // A
      .in = in,                                                                            // A -> B
      .embedding = by_inputs(
          LinearOptions{.in = shape.embedding(),  // A -> B
                        .out = shape.conditioning(stage.out),
                        .transposed = transposed(a),
                        .segments = shape.scale_shift ? std::vector{stage.out, stage.out} : std::vector<int64_t>()}),
      .norm_out = {.groups = shape.groups, .channels = stage.out, .layout = Layout::over(b)},  // B
      .out = zeroed(conv3x3(stage.out, stage.out, b)),                                         // B -> A
      .shortcut = stage.in == stage.out ? std::nullopt : std::optional(by_inputs(shortcut)),   // A -> B, then to A
  };
}

UnetAttentionPlan parallelize_attention(const UnetShape& shape, const UnetStage& stage) {
  const Axis a = channel_axis(stage.level), b = other_tensor_axis(a);
  const int64_t c = stage.in;
  // norm: A, qkv: A -> B, attention: B, out: B -> A.
  return {
      .norm = {.groups = shape.groups, .channels = c, .layout = Layout::over(a)},
      .attention = {.qkv = by_inputs(
                        LinearOptions{.in = c, .out = 3 * c, .transposed = transposed(a), .segments = {c, c, c}}),
                    .attention = {.heads = shape.heads, .causal = false, .axis = b},
                    .out = zeroed(LinearOptions{.in = c, .out = c, .transposed = transposed(b)})},
  };
}

Conv2dOptions parallelize_resampling(const UnetStage& stage) {
  Conv2dOptions options = conv3x3(stage.in, stage.out, channel_axis(stage.level));  // A -> B, the next level's A
  if (stage.kind == UnetStage::Kind::down) options.stride = {2, 2};
  options.doubled = stage.kind == UnetStage::Kind::up;
  return options;
}

std::vector<ConvolutionShape> unet_convolutions(const UnetShape& shape, const GridShape& grid) {
  Context context = Context::plan(grid);
  std::set<ConvolutionShape> all;
  const auto add = [&](const Conv2dOptions& options, int64_t size) {
    if (!has_kernel_choice(options)) return;
    const Conv2d layer(context, options);
    const auto channels = [&](const Layout& layout, int64_t whole) {
      return layout.dim(whole).local_size(grid, context.at());
    };
    const int64_t in = channels(layer->input_layout(), options.in), out = channels(layer->output_layout(), options.out);
    if (in * out > 0) all.insert({size, size, in, out});
  };
  add(parallelize_unet(shape).first, shape.image);
  add(parallelize_unet(shape).last, shape.image);
  for (const UnetStage& stage : unet_stages(shape)) {
    if (stage.kind != UnetStage::Kind::residual) continue;
    const UnetResidualPlan plan = parallelize_residual(shape, stage);
    add(plan.in, stage.size);
    add(plan.out, stage.size);
  }
  return {all.begin(), all.end()};
}

}  // namespace axonn
