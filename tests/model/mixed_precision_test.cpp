// bf16 and fp16 weights and activations over fp32 master weights and optimizer state.
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "axonn/core/error.hpp"
#include "axonn/optim/make_optimizer.hpp"
#include "axonn/train/batch_plan.hpp"
#include "model/loss_of_rows.hpp"
#include "support/rank_test.hpp"

namespace axonn {
namespace {

struct Losses {
  std::vector<double> losses;
  ArenaTypes types;
};

Losses train(const GridShape& grid, const ContextOptions& options, double dropout = 0) {
  const double scale = options.dtype == at::kHalf ? 4096 : 1;  // fp16 loses gradients below 6e-8
  Context context(test_environment(), grid, options);
  Decoder model(
      context, {.shape = {.layers = 2, .hidden = 32, .heads = 4, .sequence = 8, .vocabulary = 29}, .dropout = dropout});
  const Parameters parameters = context.materialize(model, 7);
  const auto optimizer = make_optimizer(
      context, parameters, {.schedule = UpdateSchedule::ar_opt, .learning_rate = 3e-3});  // whole master weights
  const int64_t batch = 32;
  const BatchPlan plan = plan_batch(batch, batch / (int64_t{grid.z} * grid.data), grid, context.at());
  Losses run{.losses = {}, .types = context.arena_types()};
  for (int step = 0; step < 30; ++step) {
    auto work = context.begin_step();
    const int64_t first = plan.first_sample(step, 0);
    context.set_samples({.seed = 3, .first = first});
    const at::Tensor loss = test::loss_of_rows(context, model, first, plan.micro_batch, batch);
    (loss * scale).backward();
    work.finish();
    optimizer->step({.max_norm = 1, .gradient_scale = scale});
    run.losses.push_back(loss.item<double>());
    EXPECT_TRUE(at::equal(parameters.arena().weights(), parameters.arena().master().to(options.dtype)));
  }
  return run;
}

std::vector<GridShape> grids() { return factorisations(test_environment().ranks()); }

// On more than one rank each grid takes one or two pairs of types, half of them with dropout. The
// nightly run takes all.
TEST(MixedPrecision, FollowsTheLossesOfFp32OnEveryGrid) {
  for (const double dropout : {0.0, 0.1}) {
    const size_t turns = tests_everything() ? 1 : test_environment().ranks() == 1 ? 2 : 4;
    size_t turn = dropout > 0 ? turns / 2 : 0;
    const Losses fp32 = train({.data = test_environment().ranks()}, {.dtype = at::kFloat}, dropout);
    EXPECT_LT(fp32.losses.back(), 0.5 * fp32.losses.front());
    for (const GridShape& grid : grids())
      for (const auto& [dtype, sums] :
           {std::pair(at::kBFloat16, at::kFloat), {at::kBFloat16, at::kBFloat16}, {at::kHalf, at::kFloat}}) {
        if (turn++ % turns != 0) continue;
        const Losses narrow = train(grid, {.dtype = dtype, .gradient_dtype = sums}, dropout);
        EXPECT_EQ(narrow.types.gradients, sums);
        for (size_t i = 0; i < narrow.losses.size(); ++i)
          EXPECT_NEAR(narrow.losses[i], fp32.losses[i], 0.03 * fp32.losses[0])
              << "step " << i << " on " << grid.to_string() << " in " << c10::toString(dtype);
      }
  }
}

TEST(MixedPrecision, RefusesSumsThatTheWeightsDoNotHave) {
  EXPECT_THROW(Context::plan({}, {.dtype = at::kFloat, .gradient_dtype = at::kBFloat16}), UserError);
  EXPECT_THROW(Context::plan({}, {.dtype = at::kHalf, .gradient_dtype = at::kBFloat16}), UserError);
  EXPECT_THROW(Context::plan({}, {.dtype = at::kInt}), UserError);
  EXPECT_EQ(Context::plan({}, {.dtype = at::kBFloat16}).arena_types().gradients, at::kFloat);
}

}  // namespace
}  // namespace axonn
