#include "axonn/layers/norms/group_norm.hpp"

#include <torch/nn/module.h>

#include "layers/layer_fixture.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

// Output and all gradients of one layer, against LibTorch's group norm of the whole tensors.
void expect_equals_serial(const GridShape& grid, const GroupNormOptions& options, double mean, double tolerance) {
  Context context = context_on(grid);
  GroupNorm layer(context, options);
  const Parameters parameters = context.materialize(*layer, 1);
  const at::Tensor weight = whole_tensor(1, {options.channels}).requires_grad_(),
                   bias = whole_tensor(2, {options.channels}).requires_grad_();
  fill(context, parameters["weight"], weight);
  fill(context, parameters["bias"], bias);
  const at::Tensor input = (whole_tensor(3, {9, 3, 4, options.channels}) + mean).requires_grad_();
  const at::Tensor grad = whole_tensor(4, input.sizes());
  const at::Tensor output =
      at::group_norm(input.permute({0, 3, 1, 2}).contiguous(), options.groups, weight, bias, options.epsilon)
          .permute({0, 2, 3, 1});
  output.backward(grad);

  Value mine = my_value(context, input.detach(), options.layout);
  mine.tensor.requires_grad_();
  auto step = context.begin_step();
  const Value result = layer(mine);
  result.tensor.backward(my_value(context, grad, options.layout).tensor);
  step.finish();
  const std::string what = std::to_string(options.channels) + " channels in " + std::to_string(options.groups) +
                           " groups, " + options.layout.to_string() + ", on " + grid.to_string();
  const auto near = [&](const at::Tensor& got, const at::Tensor& whole, const std::string& of) {
    const at::Tensor expected = my_value(context, whole, options.layout).tensor;
    ASSERT_EQ(got.sizes(), expected.sizes()) << what << ": " << of;
    if (got.numel() == 0) return;
    EXPECT_LE((got - expected).abs().max().item<double>(), tolerance * whole.abs().max().item<double>())
        << what << ": " << of;
  };
  near(result.tensor.detach(), output.detach(), "output");
  near(mine.tensor.grad(), input.grad(), "input gradient");
  if (mean != 0) return;
  expect_gradient(context, parameters["weight"], weight.grad(), what + ": weight gradient");
  expect_gradient(context, parameters["bias"], bias.grad(), what + ": bias gradient");
}

TEST(GroupNormOnEveryGrid, EqualsSerial) {
  for (const GridShape& grid : every_grid())
    for (const Axis axis : {Axis::x, Axis::y})
      for (const int64_t groups : {1, 3, 8, 24})
        expect_equals_serial(grid, {.groups = groups, .channels = 24, .layout = Layout::over(axis)}, 0, 1e-12);
}

TEST(GroupNormOnEveryGrid, EqualsSerialOverUnevenChannels) {
  for (const GridShape& grid : every_grid())
    for (const int64_t groups : {1, 5, 10}) expect_equals_serial(grid, {.groups = groups, .channels = 10}, 0, 1e-12);
}

TEST(GroupNormOnEveryGrid, EqualsSerialAfterAConcatenation) {
  for (const GridShape& grid : every_grid())
    for (const int64_t skip : {8, 6})  // groups of four channels: with 6, one group lies in both segments
      expect_equals_serial(grid, {.groups = 6, .channels = 24, .layout = Layout::over(Axis::y, {skip, 24 - skip})}, 0,
                           1e-12);
}

// Sums of squares would lose six digits.
TEST(GroupNormOnEveryGrid, EqualsSerialFarFromZero) {
  for (const GridShape& grid : every_grid()) expect_equals_serial(grid, {.groups = 3, .channels = 24}, 1000, 2e-12);
}

// Every gradient of silu(norm(x) * (1 + scale) + shift), also where a group lies on two ranks.
TEST(ActivatedGroupNorm, EqualsSerialOnEveryGrid) {
  for (const GridShape& grid : every_grid())
    for (const bool scales : {false, true}) {
      Context context = context_on(grid);
      const GroupNormOptions options = {.groups = 6, .channels = 24};
      const Layout both = Layout::over(Axis::y, {24, 24});
      GroupNorm layer(context, options);
      const Parameters parameters = context.materialize(*layer, 1);
      const at::Tensor input = whole_tensor(3, {8, 3, 4, 24}).requires_grad_(),
                       conditions = whole_tensor(5, {8, 48}).requires_grad_(), grad = whole_tensor(4, {8, 3, 4, 24});
      at::Tensor output = at::group_norm(input.permute({0, 3, 1, 2}), options.groups, {}, {}, options.epsilon);
      if (scales)
        output = output * (1 + conditions.narrow(1, 0, 24).view({8, 24, 1, 1})) +
                 conditions.narrow(1, 24, 24).view({8, 24, 1, 1});
      output = at::silu(output).permute({0, 2, 3, 1});
      output.backward(grad);
      Value mine = my_value(context, input.detach(), options.layout);
      const at::Tensor my_conditions = my_value(context, conditions.detach(), both).tensor.requires_grad_();
      mine.tensor.requires_grad_();
      auto step = context.begin_step();
      const Value result = layer->activated(mine, scales ? my_conditions : at::Tensor());
      result.tensor.backward(my_value(context, grad, options.layout).tensor);
      step.finish();
      const std::string what = std::string(scales ? "scaled" : "plain") + " on " + grid.to_string();
      expect_near(result.tensor.detach(), my_value(context, output.detach(), options.layout).tensor, what);
      expect_near(mine.tensor.grad(), my_value(context, input.grad(), options.layout).tensor, what + ": input");
      if (scales)
        expect_near(my_conditions.grad(), my_value(context, conditions.grad(), both).tensor, what + ": conditions");
    }
}

TEST(GroupNormExchanges, OnlyWhereAGroupLiesOnTwoRanks) {
  Context context = Context::plan({.x = 2, .y = 4});
  EXPECT_FALSE(GroupNorm(context, {.groups = 8, .channels = 32})->exchanges());
  EXPECT_TRUE(GroupNorm(context, {.groups = 2, .channels = 32})->exchanges());
  EXPECT_FALSE(GroupNorm(context, {.groups = 2, .channels = 32, .layout = Layout::over(Axis::x)})->exchanges());
  EXPECT_FALSE(
      GroupNorm(context, {.groups = 8, .channels = 32, .layout = Layout::over(Axis::y, {16, 16})})->exchanges());
  EXPECT_TRUE(GroupNorm(context, {.groups = 8, .channels = 32, .layout = Layout::over(Axis::y, {8, 24})})->exchanges());
}

TEST(Concatenate, KeepsEveryPartOnItsRanks) {
  for (const GridShape& grid : every_grid()) {
    Context context = context_on(grid);
    const at::Tensor skip = whole_tensor(1, {8, 2, 2, 6}), x = whole_tensor(2, {8, 2, 2, 5});
    const Value both =
        concatenate(my_value(context, skip, Layout::over(Axis::y)), my_value(context, x, Layout::over(Axis::y)));
    EXPECT_EQ(both.layout, Layout::over(Axis::y, {6, 5}));
    const Value whole = redistribute(context, both, Layout::replicated());
    expect_near(whole.tensor, my_rows(context, at::cat({skip, x}, -1)), "concatenation on " + grid.to_string());
  }
}

TEST(GroupNormErrors, NameTheNumbers) {
  Context context = Context::plan({.x = 2});
  EXPECT_USER_ERROR(GroupNorm(context, {.groups = 5, .channels = 32}), "5 groups must divide the 32 channels");
  GroupNorm norm(context, {.groups = 2, .channels = 8});
  EXPECT_USER_ERROR(norm->activated({at::zeros({3, 2, 2, 8}), 8, Layout::over(Axis::y)}, at::zeros({3, 8})),
                    "scale and shift must be 3 x 16, got [3, 8]");
}

}  // namespace
}  // namespace axonn
