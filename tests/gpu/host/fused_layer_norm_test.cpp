// The fused LayerNorm, with its kernels on the host, and the stream beside it, against LibTorch.
#include "layers/ops/fused_layer_norm.hpp"

#include <string>

#include "axonn/layers/norms/layer_norm.hpp"
#include "layers/layer_fixture.hpp"

namespace axonn {
namespace {

using namespace test;

constexpr double kEpsilon = 1e-5;

// A layer and its parameters, filled with the numbers of `weight` and `bias`.
struct Norm {
  Norm(Context& context, int64_t features)
      : layer(context, {.features = features, .epsilon = kEpsilon}),
        parameters(context.materialize(*layer, 1)),
        weight(whole_tensor(1, {features}).requires_grad_()),
        bias(whole_tensor(2, {features}).requires_grad_()) {
    fill(context, parameters["weight"], weight);
    fill(context, parameters["bias"], bias);
  }
  Branched branch(const at::Tensor& input) {
    return record_branch(fused_layer_norm(parameters["weight"], parameters["bias"], kEpsilon), input,
                         {&parameters["weight"], &parameters["bias"]});
  }

  LayerNorm layer;
  Parameters parameters;
  at::Tensor weight, bias;
};

std::vector<GridShape> grids() {
  std::vector<GridShape> all = every_grid();
  std::erase_if(all, [](const GridShape& grid) { return grid.y > 1; });
  return all;
}

TEST(FusedLayerNorm, EqualsSerialWithTheStreamsGradient) {
  for (const GridShape& grid : grids())
    for (const int64_t features : {24, 37})
      for (const bool uses_stream : {true, false}) {
        Context context = context_on(grid);
        Norm norm(context, features);
        auto step = context.begin_step({.micro_batches = 2});
        for (const int64_t seed : {10, 20}) {
          const at::Tensor input = whole_tensor(seed, {16, 3, features}).requires_grad_(),
                           grad = whole_tensor(seed + 1, {16, 3, features});
          const auto joined = [&](const at::Tensor& stream, const at::Tensor& branch) {
            return uses_stream ? branch + 2 * stream : branch;
          };
          const at::Tensor expected = at::layer_norm(input, {features}, norm.weight, norm.bias, kEpsilon);
          joined(input, expected).backward(grad);
          const at::Tensor mine = my_rows(context, input.detach()).requires_grad_();
          const Branched got = norm.branch(mine);
          joined(got.stream, got.branch).backward(my_rows(context, grad));
          const std::string what = std::to_string(features) + " features on " + grid.to_string();
          EXPECT_TRUE(got.stream.equal(mine)) << what;
          expect_near(got.branch.detach(), my_rows(context, expected.detach()), what);
          expect_near(mine.grad(), my_rows(context, input.grad()), what + ": input");
        }
        step.finish();
        expect_gradient(context, norm.parameters["weight"], norm.weight.grad(), "weight");
        expect_gradient(context, norm.parameters["bias"], norm.bias.grad(), "bias");
      }
}

TEST(FusedLayerNorm, WithoutGradientsHandsTheInputOn) {
  Context context = context_on(grids().front());
  Norm norm(context, 24);
  const at::NoGradGuard no_grad;
  const at::Tensor input = whole_tensor(3, {4, 24});
  const Branched got = norm.branch(input);
  EXPECT_TRUE(got.stream.is_same(input));
  EXPECT_FALSE(got.branch.requires_grad());
}

TEST(FusedLayerNorm, TakesRowsThatABlockHoldsWithWideGradients) {
  const at::Tensor rows = at::empty({2, 1600}, at::kBFloat16);
  EXPECT_TRUE(fused_layer_norm_fits(rows, at::kFloat));
  EXPECT_FALSE(fused_layer_norm_fits(rows, at::kBFloat16));
  EXPECT_FALSE(fused_layer_norm_fits(at::empty({2, 5000}, at::kBFloat16), at::kFloat));
}

}  // namespace
}  // namespace axonn
