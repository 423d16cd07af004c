// A convolution with bias, dropout and residual, under every schedule of its product.
#include <map>

#include "axonn/layers/conv2d.hpp"
#include "axonn/layers/dropout.hpp"
#include "layers/layer_fixture.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

constexpr LinearSchedule kSchedules[] = {LinearSchedule::mm_ar_c, LinearSchedule::mm_rs_c_ag, LinearSchedule::overlap};

// 192 pixels of 10 channels: several parts, whose ends lie within images.
constexpr int64_t kHeight = 16, kWidth = 12;
const Conv2dOptions kConvolution = {.in = 6, .out = 10, .padding = {1, 1}};

// One use of the layer in a step, from the same numbers on every grid.
class Images {
 public:
  Images(const GridShape& grid, const Conv2dOptions& options, LinearSchedule schedule, at::ScalarType dtype,
         OverlapPolicy policy = {}, const ConvolutionChoice& choice = {})
      : context_(test_environment(), grid,
                 {.dtype = dtype, .overlap = policy, .forward = {.linear = schedule}, .convolutions = choice}),
        layer_(context_, options),
        parameters_(context_.materialize(*layer_, 1)) {
    fill(context_, parameters_["weight"],
         whole_tensor(1, {options.out, options.kernel[0], options.kernel[1], options.in / options.groups}));
    fill(context_, parameters_["bias"], whole_tensor(2, {options.out}));
    if (dtype == at::kBFloat16) parameters_.arena().round_master();
  }

  // `joined`: dropout and sum as one operation with the layer; otherwise as calls of their own.
  void run(int64_t images, double probability, bool joined) {
    const Conv2dOptions& options = layer_->options();
    input_ = my_leaf(context_, 3, {images, kHeight, kWidth, options.in}, layer_->input_layout());
    const std::array<int64_t, 2> sizes = output_sizes();
    stream_ = my_leaf(context_, 4, {images, sizes[0], sizes[1], options.out}, layer_->output_layout());
    auto step = context_.begin_step();
    context_.set_samples({.seed = 5, .first = images * (context_.at().data * context_.shape().z + context_.at().z)});
    if (joined) {
      output_ = layer_->launch(input_, {.stream = stream_, .dropout = probability, .name = "branch"}).wait().tensor;
    } else {
      output_ = stream_.tensor + axonn::dropout(context_, layer_(input_), probability, "branch").tensor;
    }
    output_.backward(
        my_leaf(context_, 6, {images, sizes[0], sizes[1], options.out}, layer_->output_layout()).tensor.detach());
    step.finish();
  }

  // Output and all gradients.
  std::map<std::string, at::Tensor> results() const {
    return {{"output", output_.detach()},
            {"input", input_.tensor.grad()},
            {"stream", stream_.tensor.grad()},
            {"weight", parameters_["weight"].gradient().clone()},
            {"bias", parameters_["bias"].gradient().clone()}};
  }
  int64_t count(LinearSchedule schedule) { return context_.scheduler().linear_counts()[static_cast<size_t>(schedule)]; }
  bool sums() const { return context_.shape().size(layer_->output_sum()) > 1; }

 private:
  std::array<int64_t, 2> output_sizes() const {
    const Conv2dOptions& options = layer_->options();
    const auto size = [&](size_t dim, int64_t pixels) {
      return options.doubled ? 2 * pixels
                             : (pixels + 2 * options.padding[dim] - options.kernel[dim]) / options.stride[dim] + 1;
    };
    return {size(0, kHeight), size(1, kWidth)};
  }

  Context context_;
  Conv2d layer_;
  Parameters parameters_;
  Value input_, stream_;
  at::Tensor output_;
};

std::string text(const GridShape& grid, LinearSchedule schedule, int64_t images, const std::string& what) {
  return what + " of " + std::string(to_string(schedule)) + " on " + grid.to_string() +
         ", images per rank: " + std::to_string(images);
}

void expect_equal_under_every_schedule(const GridShape& grid, const Conv2dOptions& options, int64_t images,
                                       double probability, const ConvolutionChoice& choice = {}) {
  Images apart(grid, options, LinearSchedule::mm_ar_c, at::kDouble, {}, choice);
  apart.run(images, probability, /*joined=*/false);
  for (const LinearSchedule schedule : kSchedules) {
    Images joined(grid, options, schedule, at::kDouble, {}, choice);
    joined.run(images, probability, /*joined=*/true);
    for (const auto& [name, expected] : apart.results())
      expect_near(joined.results().at(name), expected, text(grid, schedule, images, name));
    EXPECT_EQ(joined.count(schedule), joined.sums() ? 1 : 0) << text(grid, schedule, images, "count");
  }
}

// One image is less than the share of a rank; 9 are several parts of each.
TEST(ConvolutionSchedules, EqualTheLayerFollowedByDropoutAndSum) {
  for (const GridShape& grid : every_grid())
    for (const int64_t images : {1, 2, 9}) {
      Conv2dOptions options = kConvolution;
      options.transposed = images == 2;
      expect_equal_under_every_schedule(grid, options, images, images == 1 ? 0 : 0.3);
    }
}

TEST(ConvolutionSchedules, TakeEveryKindOfConvolution) {
  ConvolutionChoice winograd;
  for (int64_t in = 1; in <= 6; ++in)
    for (int64_t out = 1; out <= 10; ++out)
      winograd.set(ConvolutionUse::output, {kHeight, kWidth, in, out}, ConvolutionKernel::winograd);
  for (const GridShape& grid : every_grid()) {
    expect_equal_under_every_schedule(grid, kConvolution, 5, 0, winograd);
    expect_equal_under_every_schedule(grid, {.in = 5, .out = 9, .kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 0}},
                                      5, 0);
    expect_equal_under_every_schedule(grid, {.in = 3, .out = 2, .padding = {1, 1}, .doubled = true}, 5, 0.3);
    expect_equal_under_every_schedule(
        grid, {.in = 11, .out = 15, .kernel = {1, 1}, .input_segments = {6, 5}, .segments = {5, 5, 5}}, 5, 0.3);
    expect_equal_under_every_schedule(grid, {.in = 3, .out = 10, .whole_input = true}, 3, 0);
    const int64_t groups = 2 * grid.y;
    expect_equal_under_every_schedule(grid, {.in = groups, .out = groups, .groups = groups}, 3, 0);
  }
}

// The product, the order of additions and the roundings of C are the same.
TEST(ConvolutionSchedules, WithAWholeProductHaveTheSameBits) {
  for (const GridShape& grid : every_grid())
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      Images everywhere(grid, kConvolution, LinearSchedule::mm_ar_c, dtype),
          owner(grid, kConvolution, LinearSchedule::mm_rs_c_ag, dtype);
      everywhere.run(9, 0.3, /*joined=*/true);
      owner.run(9, 0.3, /*joined=*/true);
      for (const auto& [name, expected] : everywhere.results())
        EXPECT_TRUE(owner.results().at(name).equal(expected)) << name << " on " << grid.to_string();
    }
}

TEST(ConvolutionSchedules, OverlappedHaveTheSameBitsUnderEveryPolicy) {
  for (const GridShape& grid : every_grid())
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      Images blocking(grid, kConvolution, LinearSchedule::overlap, dtype, OverlapPolicy::none());
      Images overlapped(grid, kConvolution, LinearSchedule::overlap, dtype, OverlapPolicy::all());
      blocking.run(9, 0.3, /*joined=*/true);
      overlapped.run(9, 0.3, /*joined=*/true);
      for (const auto& [name, expected] : blocking.results())
        EXPECT_TRUE(overlapped.results().at(name).equal(expected)) << name << " on " << grid.to_string();
    }
}

TEST(ConvolutionSchedules, RefuseAStreamThatDoesNotFit) {
  Context context = context_on({.data = test_environment().ranks()});
  Conv2d layer(context, {.in = 4, .out = 6, .stride = {2, 2}, .padding = {1, 1}});
  const Value input{at::ones({2, 8, 6, 4}, at::kDouble), 4, layer->input_layout()};
  const auto add = [](at::IntArrayRef sizes, const Layout& layout) {
    return AddTo{.stream = {at::ones(sizes, at::kDouble), sizes.back(), layout}};
  };
  EXPECT_USER_ERROR(layer->launch(input, add({2, 4, 3, 6}, Layout::over(Axis::y))), "this layer needs 'over x'");
  EXPECT_USER_ERROR(layer->launch(input, add({2, 8, 6, 6}, layer->output_layout())), "must have the rows of the output",
                    "[2, 4, 3]");
}

}  // namespace
}  // namespace axonn
