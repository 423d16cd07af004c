// A linear layer with a low-rank product beside its weight, on any grid, is the layer with both in
// one weight; gradients too. Frozen weights get none.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/layers/linear.hpp"
#include "layers/layer_fixture.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

constexpr int64_t kIn = 17, kRank = 3;
constexpr LowRankOptions kLowRank = {.rank = kRank, .alpha = 5};

struct Case {
  bool transposed;
  std::vector<int64_t> segments;
};

TEST(LowRankOnEveryGrid, IsAddedToTheWeight) {
  for (const Case& one : {Case{false, {}}, {true, {}}, {false, {9, 4, 6}}})
    for (const GridShape& grid : every_grid()) {
      const int64_t out = one.segments.empty() ? 19 : 19, parts = std::max<int64_t>(1, one.segments.size());
      Context context = context_on(grid);
      Linear layer(
          context,
          {.in = kIn, .out = out, .transposed = one.transposed, .segments = one.segments, .low_rank = kLowRank});
      const Parameters parameters = context.materialize(*layer, 1);
      const at::Tensor weight = whole_tensor(1, {out, kIn}).requires_grad_(), bias = whole_tensor(2, {out}),
                       a = whole_tensor(3, {parts * kRank, kIn}).requires_grad_(),
                       b = whole_tensor(4, {out, kRank}).requires_grad_(),
                       input = whole_tensor(5, {16, 2, kIn}).requires_grad_(), grad = whole_tensor(6, {16, 2, out});
      fill(context, parameters["weight"], weight);
      fill(context, parameters["bias"], bias);
      fill(context, parameters["lora_a"], a);
      fill(context, parameters["lora_b"], b);
      std::vector<at::Tensor> added;
      int64_t row = 0, first = 0;
      for (const int64_t size : layer->segments()) {
        added.push_back(at::mm(b.narrow(0, row, size), a.narrow(0, first, kRank)) * kLowRank.scale());
        row += size;
        first += kRank;
      }
      const at::Tensor output = at::linear(input, weight + at::cat(added, 0), bias);
      output.backward(grad);

      Value mine = my_value(context, input.detach(), layer->input_layout());
      mine.tensor.requires_grad_();
      auto step = context.begin_step();
      const Value result = layer(mine);
      result.tensor.backward(my_value(context, grad, result.layout).tensor);
      step.finish();
      const std::string what = "low rank on " + grid.to_string();
      expect_near(result.tensor.detach(), my_value(context, output.detach(), result.layout).tensor, what);
      expect_near(mine.tensor.grad(), my_value(context, input.grad(), mine.layout).tensor, what + ", input");
      expect_gradient(context, parameters["weight"], weight.grad(), what + ", weight");
      expect_gradient(context, parameters["lora_a"], a.grad(), what + ", a");
      expect_gradient(context, parameters["lora_b"], b.grad(), what + ", b");
    }
}

TEST(FrozenParameters, GetNoGradientsAndLieByThemselves) {
  Context context = context_on(every_grid().front());
  Linear layer(context, {.in = kIn, .out = 19, .low_rank = kLowRank});
  const Parameters parameters = context.materialize(
      *layer, {.seed = 1, .is_trained = [](const std::string& name) { return name.starts_with("lora"); }});
  ASSERT_NE(parameters.frozen(), nullptr);
  EXPECT_EQ(parameters.list().size(), 2);
  EXPECT_EQ(parameters.frozen()->list().size(), 2);
  EXPECT_FALSE(parameters.frozen()->arena().has_gradients());
  EXPECT_FALSE(parameters["weight"].trained());
  EXPECT_TRUE(parameters["lora_a"].trained());
  auto step = context.begin_step();
  const Value mine = my_value(context, whole_tensor(5, {16, kIn}), layer->input_layout());  // needs no gradient
  const Value result = layer(mine);
  EXPECT_TRUE(result.tensor.requires_grad());
  result.tensor.sum().backward();
  step.finish();
  EXPECT_TRUE(parameters["lora_b"].gradient().isfinite().all().item<bool>());

  Linear other(context, {.in = kIn, .out = 19});
  EXPECT_USER_ERROR(context.materialize(*other, {.is_trained = [](const std::string&) { return false; }}),
                    "every parameter is frozen; train at least one of them, such as 'weight'");
  EXPECT_USER_ERROR(
      context.materialize(*other, {.is_trained = [](const std::string&) { return true; }, .trains = false}),
      "with trains = false nothing is");
  EXPECT_USER_ERROR(Linear(context, {.in = kIn, .out = 19, .pad_output = true, .low_rank = kLowRank}),
                    "nor be that of a layer with padding");
}

}  // namespace
}  // namespace axonn
