// Launches that are repeated with other samples, learning rates and numbers of updates give the
// weights of steps that are taken one by one. On the CPU, work is done again in the place of a
// launch: whatever depends on the step must be read from the tensors that are put in place.
#include "train/step/graphed_step.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "axonn/core/error.hpp"
#include "axonn/model/decoder/model.hpp"
#include "axonn/tasks/text/synthetic_tokens.hpp"
#include "axonn/train/trainer.hpp"
#include "optim/rule.hpp"
#include "support/rank_test.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

constexpr double kClip = 0.5;
constexpr int64_t kSteps = 5;

class WorkAgain : public LaunchGraph {
 public:
  void record(const std::function<void()>& work) override { work_ = work; }
  void launch() override { work_(); }

 private:
  std::function<void()> work_;
};

// A power of two, which fp32 holds: one for each step.
double learning_rate(int64_t step) { return 1.0 / static_cast<double>(int64_t{64} << step); }

struct Network {
  explicit Network(double ema)
      : context(test_environment(), {}, {}),
        model(context, {.shape = {.layers = 1, .hidden = 16, .heads = 2, .sequence = 8, .vocabulary = 37},
                        .dropout = 0.2,
                        .checkpoint_every = 1}),
        parameters(context.materialize(model, 1)),
        optimizer(make_rule<OptimizerKind::adamw>(context, parameters, {.ema = ema})),
        task(model, 1),
        plan(plan_batch(6, 3, context.shape(), context.at())) {}

  TrainedNetwork trained() { return {test_environment(), context, parameters, *optimizer, task}; }

  Context context;
  Decoder model;
  Parameters parameters;
  std::unique_ptr<Optimizer> optimizer;
  SyntheticTokens task;
  BatchPlan plan;
};

// Loss and norm of every step.
using Curve = std::vector<std::pair<double, double>>;

Curve one_by_one(Network& network) {
  Curve curve;
  for (int64_t step = 0; step < kSteps; ++step) {
    const PassLosses losses = run_passes(network.context, network.task, network.plan, step, {.seed = 3});
    const UpdateReport report =
        network.optimizer->step({.max_norm = kClip, .learning_rate = learning_rate(step), .loss = losses.means.sum()});
    curve.emplace_back(losses.loss(), report.norm.item<double>());
  }
  return curve;
}

Curve as_launches(Network& network) {
  GraphedStep graphed(network.trained(), network.plan, {.seed = 3, .clip = kClip}, std::make_unique<WorkAgain>());
  Curve curve;
  for (int64_t step = 0; step < kSteps; ++step) {
    const GraphedStep::Numbers& numbers = graphed.take(step, learning_rate(step));
    curve.emplace_back(numbers.losses.loss(), numbers.norm.item<double>());
  }
  return curve;
}

void expect_the_same(double ema) {
  Network expected(ema), found(ema);
  EXPECT_EQ(as_launches(found), one_by_one(expected));
  EXPECT_EQ(found.optimizer->steps_taken(), kSteps);
  const auto states = expected.optimizer->state();
  for (size_t i = 0; i < states.size(); ++i)
    EXPECT_LE((found.optimizer->state()[i].tensor - states[i].tensor).abs().max().item<double>(), 1e-7)
        << states[i].name;
}

TEST(GraphedStep, RepeatsWithOtherNumbers) { expect_the_same(0); }

TEST(GraphedStep, RepeatsWithTheAverageOfTheWeights) { expect_the_same(0.9); }

TEST(GraphedStep, IsRefusedWhereNothingIsRecorded) {
  const ContextOptions gpu{.dtype = at::kBFloat16, .device = c10::kCUDA};
  const TrainConfig config{.cuda_graph = true};
  check_cuda_graph({}, {.x = 2}, {});
  check_cuda_graph(config, {}, gpu);
  EXPECT_USER_ERROR(check_cuda_graph(config, {}, {}), "--cuda-graph needs a GPU; choose --device cuda");
  EXPECT_USER_ERROR(check_cuda_graph(config, {.z = 2}, gpu), "one rank", "1x1x2x1");
  ContextOptions fp64 = gpu;
  fp64.dtype = at::kDouble;
  EXPECT_USER_ERROR(check_cuda_graph(config, {}, fp64), "fp32 or bf16", "choose --dtype bf16");
  TrainConfig sgd = config, spikes = config;
  sgd.optimizer.kind = OptimizerKind::sgd;
  EXPECT_USER_ERROR(check_cuda_graph(sgd, {}, gpu), "choose --optimizer adamw");
  spikes.spikes.action = OnSpike::skip;
  EXPECT_USER_ERROR(check_cuda_graph(spikes, {}, gpu), "choose --on-spike off");
}

TEST(GraphedStep, NeedsNumbersThatFp32Holds) {
  Context context(test_environment(), {}, {.dtype = at::kDouble});
  Decoder model(context, {.shape = {.layers = 1, .hidden = 16, .heads = 2, .sequence = 8, .vocabulary = 37}});
  const Parameters parameters = context.materialize(model, 1);
  const auto optimizer = make_rule<OptimizerKind::adamw>(context, parameters, {});
  EXPECT_USER_ERROR(optimizer->stage(), "in fp64", "without `staged`");
  EXPECT_USER_ERROR(make_optimizer(context, parameters, OptimizerSettings{})->stage(), "only AdamW on a GPU");
}

}  // namespace
}  // namespace axonn
