// The fused GroupNorm, with its kernels on the host, against LibTorch.
#include "layers/ops/fused_group_norm.hpp"

#include <string>

#include "axonn/layers/norms/group_norm.hpp"
#include "layers/layer_fixture.hpp"

namespace axonn {
namespace {

using namespace test;

constexpr double kEpsilon = 1e-5;

std::vector<GridShape> grids() {
  std::vector<GridShape> all = every_grid();
  std::erase_if(all, [](const GridShape& grid) { return grid.y > 1; });
  return all;
}

at::Tensor expected_of(const at::Tensor& input, int64_t groups, const at::Tensor& weight, const at::Tensor& bias,
                       const at::Tensor& scale_and_shift, bool silu) {
  at::Tensor result = at::group_norm(input.permute({0, 3, 1, 2}), groups, weight, bias, kEpsilon).permute({0, 2, 3, 1});
  if (scale_and_shift.defined()) {
    const auto parts = scale_and_shift.unsqueeze(1).unsqueeze(1).chunk(2, -1);
    result = result * (1 + parts[0]) + parts[1];
  }
  return silu ? at::silu(result) : result;
}

struct Case {
  int64_t channels, groups;
  bool silu, scales;
};
constexpr Case kCases[] = {{24, 8, false, false}, {24, 3, true, true}, {21, 7, true, false}, {40, 10, false, true}};

TEST(FusedGroupNorm, EqualsSerial) {
  for (const GridShape& grid : grids())
    for (const auto& [channels, groups, silu, scales] : kCases) {
      Context context = context_on(grid);
      GroupNorm layer(context, {.groups = groups, .channels = channels, .epsilon = kEpsilon});
      const Parameters parameters = context.materialize(*layer, 1);
      const at::Tensor weight = whole_tensor(1, {channels}).requires_grad_(),
                       bias = whole_tensor(2, {channels}).requires_grad_();
      fill(context, parameters["weight"], weight);
      fill(context, parameters["bias"], bias);
      const std::string what =
          std::to_string(channels) + " channels in " + std::to_string(groups) + " groups on " + grid.to_string();
      auto step = context.begin_step({.micro_batches = 2});
      for (const int64_t seed : {10, 20}) {
        const at::Tensor input = whole_tensor(seed, {16, 3, 5, channels}).requires_grad_(),
                         grad = whole_tensor(seed + 1, {16, 3, 5, channels});
        at::Tensor conditions, my_conditions;
        if (scales) {
          conditions = whole_tensor(seed + 2, {16, 2 * channels}).requires_grad_();
          my_conditions = my_rows(context, conditions.detach()).requires_grad_();
        }
        const at::Tensor expected = expected_of(input, groups, weight, bias, conditions, silu);
        expected.backward(grad);
        const at::Tensor mine = my_rows(context, input.detach()).requires_grad_();
        const at::Tensor got =
            record(fused_group_norm(parameters["weight"], parameters["bias"], {groups, kEpsilon, silu}, my_conditions),
                   mine, {&parameters["weight"], &parameters["bias"]}, {my_conditions});
        got.backward(my_rows(context, grad));
        expect_near(got.detach(), my_rows(context, expected.detach()), what);
        expect_near(mine.grad(), my_rows(context, input.grad()), what + ": input");
        if (scales) expect_near(my_conditions.grad(), my_rows(context, conditions.grad()), what + ": scale and shift");
      }
      step.finish();
      expect_gradient(context, parameters["weight"], weight.grad(), what + ": weight");
      expect_gradient(context, parameters["bias"], bias.grad(), what + ": bias");
    }
}

// A rank may have no images.
TEST(FusedGroupNorm, OfNoImagesAddsNothing) {
  Context context = context_on(grids().front());
  GroupNorm layer(context, {.groups = 2, .channels = 8});
  const Parameters parameters = context.materialize(*layer, 1);
  auto step = context.begin_step();
  const at::Tensor none = at::zeros({0, 3, 5, 8}, at::kDouble).requires_grad_();
  const at::Tensor got = record(fused_group_norm(parameters["weight"], parameters["bias"], {2, kEpsilon, true}, {}),
                                none, {&parameters["weight"], &parameters["bias"]});
  got.sum().backward();
  step.finish();
  EXPECT_EQ(none.grad().numel(), 0);
  EXPECT_EQ(parameters["weight"].gradient().abs().sum().item<double>(), 0);
}

TEST(FusedGroupNorm, TakesWholeGroupsWithWideGradients) {
  const at::Tensor images = at::empty({2, 4, 4, 256}, at::kBFloat16);
  EXPECT_TRUE(fused_group_norm_fits(images, 32, at::kFloat));
  EXPECT_FALSE(fused_group_norm_fits(images, 32, at::kBFloat16));
  EXPECT_FALSE(fused_group_norm_fits(at::empty({2, 4, 4, 0}, at::kBFloat16), 32, at::kFloat));
}

}  // namespace
}  // namespace axonn
