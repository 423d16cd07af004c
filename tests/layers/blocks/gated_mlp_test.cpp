// A gated MLP on any grid gives the numbers of one rank.
#include <ATen/ops/silu.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/layers/blocks/mlp.hpp"
#include "layers/layer_fixture.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

constexpr int64_t kFeatures = 24, kHidden = 40;

MlpOptions gated() {
  return {.up = {.in = kFeatures, .out = 2 * kHidden, .segments = {kHidden, kHidden}},
          .down = {.in = kHidden, .out = kFeatures, .transposed = true},
          .gated = true};
}

// Stream + MLP(stream) and its gradients, in plain LibTorch.
TEST(GatedMlpOnEveryGrid, EqualsItsFormula) {
  for (const GridShape& grid : every_grid()) {
    Context context = context_on(grid);
    Mlp mlp(context, gated());
    const Parameters parameters = context.materialize(*mlp, 1);
    const at::Tensor up = whole_tensor(1, {2 * kHidden, kFeatures}).requires_grad_(),
                     bias = whole_tensor(2, {2 * kHidden}).requires_grad_(),
                     down = whole_tensor(3, {kFeatures, kHidden}).requires_grad_();
    fill(context, parameters["fc.weight"], up);
    fill(context, parameters["fc.bias"], bias);
    fill(context, parameters["proj.weight"], down);
    const at::Tensor input = whole_tensor(4, {16, 2, kFeatures}).requires_grad_(),
                     grad = whole_tensor(5, {16, 2, kFeatures});
    const auto halves = (input.matmul(up.t()) + bias).chunk(2, -1);
    const at::Tensor output = input + (at::silu(halves[0]) * halves[1]).matmul(down.t());
    output.backward(grad);

    Value mine = my_value(context, input.detach(), Layout::over(Axis::y));
    mine.tensor.requires_grad_();
    auto step = context.begin_step();
    const Value result = mlp->begin(mine, {.stream = mine})().wait();
    result.tensor.backward(my_value(context, grad, result.layout).tensor);
    step.finish();
    const std::string what = "gated MLP on " + grid.to_string();
    expect_near(result.tensor.detach(), my_value(context, output.detach(), result.layout).tensor, what);
    expect_near(mine.tensor.grad(), my_value(context, input.grad(), result.layout).tensor, what);
    expect_gradient(context, parameters["fc.weight"], up.grad(), what);
    expect_gradient(context, parameters["fc.bias"], bias.grad(), what);
    expect_gradient(context, parameters["proj.weight"], down.grad(), what);
  }
}

TEST(GatedMlp, NeedsTwoSegments) {
  Context context = context_on({.data = test_environment().ranks()});
  MlpOptions options = gated();
  options.up.segments = {};
  EXPECT_USER_ERROR(Mlp(context, options), "needs up.segments of 40 gates and 40 values");
}

}  // namespace
}  // namespace axonn
