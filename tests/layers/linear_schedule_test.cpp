// A linear layer with bias, dropout and residual, under every schedule of its product.
#include <map>

#include <ATen/ops/linear.h>

#include "axonn/layers/dropout.hpp"
#include "axonn/layers/linear.hpp"
#include "layers/layer_fixture.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

// 27'300 elements over two owners are several parts, whose ends lie within rows.
constexpr int64_t kRows = 1300, kIn = 13, kOut = 42;

constexpr LinearSchedule kSchedules[] = {LinearSchedule::mm_ar_c, LinearSchedule::mm_rs_c_ag, LinearSchedule::overlap};

// One use of the layer in a step, from the same numbers on every grid.
class Branch {
 public:
  Branch(const GridShape& grid, LinearSchedule schedule, at::ScalarType dtype, bool transposed,
         OverlapPolicy policy = {})
      : context_(test_environment(), grid, {.dtype = dtype, .overlap = policy, .forward = {.linear = schedule}}),
        layer_(context_, {.in = kIn, .out = kOut, .transposed = transposed}),
        parameters_(context_.materialize(*layer_, 1)) {
    for (const auto& [name, whole] : {std::pair("weight", weight()), std::pair("bias", bias())}) {
      fill(context_, parameters_[name], whole);
    }
    if (dtype == at::kBFloat16) parameters_.arena().round_master();
  }

  // `joined`: dropout and sum as one operation with the layer; otherwise as calls of their own.
  void run(double probability, bool joined) {
    input_ = my_leaf(context_, 3, sizes(kIn), layer_->input_layout());
    stream_ = my_leaf(context_, 4, sizes(kOut), layer_->output_layout());
    auto step = context_.begin_step();
    context_.set_samples({.seed = 5, .first = 2 * (context_.at().data * context_.shape().z + context_.at().z)});
    if (joined) {
      output_ = layer_->launch(input_, {.stream = stream_, .dropout = probability, .name = "branch"}).wait().tensor;
    } else {
      output_ = stream_.tensor + axonn::dropout(context_, layer_(input_), probability, "branch").tensor;
    }
    output_.backward(my_leaf(context_, 6, sizes(kOut), layer_->output_layout()).tensor.detach());
    step.finish();
    counts_ = context_.scheduler().linear_counts();
  }

  // Output and all gradients.
  std::map<std::string, at::Tensor> results() const {
    return {{"output", output_.detach()},
            {"input", input_.tensor.grad()},
            {"stream", stream_.tensor.grad()},
            {"weight", parameters_["weight"].gradient().clone()},
            {"bias", parameters_["bias"].gradient().clone()}};
  }
  const LinearCounts& counts() const { return counts_; }
  bool several() const { return context_.shape()[layer_->in_axis()] > 1; }

 private:
  static at::Tensor weight() { return whole_tensor(1, {kOut, kIn}); }
  static at::Tensor bias() { return whole_tensor(2, {kOut}); }
  // Of one rank's two samples.
  std::vector<int64_t> sizes(int64_t features) const {
    return {2, kRows / (2 * context_.shape().z * context_.shape().data), features};
  }

  Context context_;
  Linear layer_;
  Parameters parameters_;
  Value input_, stream_;
  at::Tensor output_;
  LinearCounts counts_{};
};

std::string text(const GridShape& grid, LinearSchedule schedule, const std::string& what) {
  return what + " of " + std::string(to_string(schedule)) + " on " + grid.to_string();
}

TEST(LinearSchedules, EqualTheLayerFollowedByDropoutAndSum) {
  for (const GridShape& grid : every_grid())
    for (const bool transposed : {false, true})
      for (const double probability : {0.0, 0.3}) {
        Branch apart(grid, LinearSchedule::mm_ar_c, at::kDouble, transposed);
        apart.run(probability, /*joined=*/false);
        for (const LinearSchedule schedule : kSchedules) {
          Branch joined(grid, schedule, at::kDouble, transposed);
          joined.run(probability, /*joined=*/true);
          for (const auto& [name, expected] : apart.results())
            expect_near(joined.results().at(name), expected, text(grid, schedule, name));
          EXPECT_EQ(joined.counts()[static_cast<size_t>(schedule)], joined.several() ? 1 : 0);
        }
      }
}

// The product, the order of additions and the roundings of C are the same.
TEST(LinearSchedules, WithAWholeProductHaveTheSameBits) {
  for (const GridShape& grid : every_grid())
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      Branch everywhere(grid, LinearSchedule::mm_ar_c, dtype, false),
          owner(grid, LinearSchedule::mm_rs_c_ag, dtype, false);
      everywhere.run(0.3, /*joined=*/true);
      owner.run(0.3, /*joined=*/true);
      for (const auto& [name, expected] : everywhere.results())
        EXPECT_TRUE(owner.results().at(name).equal(expected)) << name << " on " << grid.to_string();
    }
}

TEST(LinearSchedules, OverlappedHaveTheSameBitsUnderEveryPolicy) {
  for (const GridShape& grid : every_grid()) {
    Branch blocking(grid, LinearSchedule::overlap, at::kFloat, false, OverlapPolicy::none());
    Branch overlapped(grid, LinearSchedule::overlap, at::kFloat, false, OverlapPolicy::all());
    blocking.run(0.3, /*joined=*/true);
    overlapped.run(0.3, /*joined=*/true);
    for (const auto& [name, expected] : blocking.results())
      EXPECT_TRUE(overlapped.results().at(name).equal(expected)) << name << " on " << grid.to_string();
  }
}

TEST(LinearSchedules, RefuseAStreamThatDoesNotFit) {
  Context context = context_on({.data = test_environment().ranks()});
  Linear layer(context, {.in = 4, .out = 6}), padded(context, {.in = 4, .out = 6, .pad_output = true}),
      open(context, {.in = 4, .out = 6, .adds_bias = false});
  const Value input{at::ones({2, 4}, at::kDouble), 4, layer->input_layout()};
  const auto add = [](at::IntArrayRef sizes, const Layout& layout) {
    return AddTo{.stream = {at::ones(sizes, at::kDouble), sizes.back(), layout}};
  };
  EXPECT_USER_ERROR(layer->launch(input, add({2, 6}, Layout::over(Axis::y))), "this layer needs 'over x'");
  EXPECT_USER_ERROR(layer->launch(input, add({3, 6}, layer->output_layout())), "must have the rows of the output");
  EXPECT_USER_ERROR(padded->launch(input, add({2, 6}, padded->output_layout())), "with padding");
  EXPECT_USER_ERROR(open->launch(input, add({2, 6}, open->output_layout())), "choose adds_bias = true");
}

TEST(LinearSchedules, AreRefusedOnAGpu) {
  for (const auto schedule : {LinearSchedule::mm_rs_c_ag, LinearSchedule::overlap})
    EXPECT_USER_ERROR(Context::plan({.x = 2}, {.device = c10::kCUDA, .forward = {.linear = schedule}}),
                      "needs tensors on a CPU");
  Context::plan({.x = 2}, {.device = c10::kCUDA, .forward = {.linear = LinearSchedule::automatic}});
}

}  // namespace
}  // namespace axonn
