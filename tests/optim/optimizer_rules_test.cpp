// Each optimizer beside plain code of its paper, on one rank, with clipping and decay.
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/layers/linear.hpp"
#include "axonn/layers/loss.hpp"
#include "axonn/optim/make_optimizer.hpp"
#include "optim/rule.hpp"
#include "support/rank_test.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

constexpr double kRate = 0.1, kDecay = 0.2, kBeta1 = 0.8, kBeta2 = 0.9, kEpsilon = 1e-3, kMomentum = 0.7;

// One tensor and its state, as plain code updates them.
struct Plain {
  at::Tensor w, m, v;
  double decay = 0;
};
using Rule = std::function<void(Plain& p, const at::Tensor& g, int step)>;

void adamw(Plain& p, const at::Tensor& g, int step) {
  p.m = kBeta1 * p.m + (1 - kBeta1) * g;
  p.v = kBeta2 * p.v + (1 - kBeta2) * g * g;
  const at::Tensor mean = p.m / (1 - std::pow(kBeta1, step)), square = p.v / (1 - std::pow(kBeta2, step));
  p.w = p.w * (1 - kRate * p.decay) - kRate * mean / (square.sqrt() + kEpsilon);
}

void sgd(Plain& p, const at::Tensor& g, int) { p.w = p.w - kRate * (g + p.decay * p.w); }

void sgd_momentum(Plain& p, const at::Tensor& g, int) {
  p.m = kMomentum * p.m + g + p.decay * p.w;
  p.w = p.w - kRate * p.m;
}

void lion(Plain& p, const at::Tensor& g, int) {
  const at::Tensor direction = (kBeta1 * p.m + (1 - kBeta1) * g).sign();
  p.w = p.w - kRate * (direction + p.decay * p.w);
  p.m = kBeta2 * p.m + (1 - kBeta2) * g;
}

OptimizerSettings settings_of(OptimizerKind kind) {
  return {.kind = kind,
          .learning_rate = kRate,
          .weight_decay = kDecay,
          .beta1 = kBeta1,
          .beta2 = kBeta2,
          .epsilon = kEpsilon,
          .momentum = kMomentum};
}

OptimizerSettings lion_settings() {
  OptimizerSettings settings{.file = AXONN_LION, .learning_rate = kRate, .weight_decay = kDecay};
  settings.set = {{"beta1", kBeta1}, {"beta2", kBeta2}};
  return settings;
}

void expect_rule(const OptimizerSettings& settings, const Rule& rule) {
  Context context(test_environment(), {}, {.dtype = at::kDouble});
  Linear layer(context, {.in = 3, .out = 2, .bias_initial = Initial::uniform(1)});
  const Parameters parameters = context.materialize(*layer, 1);
  const auto optimizer = make_optimizer(context, parameters, settings);
  std::map<std::string, Plain> plain;
  for (const char* name : {"weight", "bias"}) {
    const at::Tensor w = parameters[name].shard().detach().clone();
    plain[name] = {w, at::zeros_like(w), at::zeros_like(w), name == std::string("weight") ? kDecay : 0};
  }
  for (int step = 1; step <= 4; ++step) {
    auto work = context.begin_step();
    mean(layer(at::arange(12, at::kDouble).view({4, 3}).sin() + step).square().sum(), 8, context).backward();
    work.finish();
    double squares = 0;
    for (const char* name : {"weight", "bias"}) squares += parameters[name].gradient().square().sum().item<double>();
    const double most = step % 2 == 0 ? 0 : std::sqrt(squares) / 3,
                 factor = most > 0 ? most / (std::sqrt(squares) + 1e-6) : 1;
    for (const char* name : {"weight", "bias"}) rule(plain[name], parameters[name].gradient() * factor, step);
    EXPECT_NEAR(optimizer->step({.max_norm = most}).gradient_norm, std::sqrt(squares), 1e-12);
    for (const char* name : {"weight", "bias"})
      EXPECT_LE((parameters[name].shard() - plain[name].w).abs().max().item<double>(), 1e-12) << name << " " << step;
  }
}

TEST(OptimizerRules, FollowTheirPapers) {
  expect_rule(settings_of(OptimizerKind::adamw), adamw);
  expect_rule(settings_of(OptimizerKind::sgd), sgd);
  expect_rule(settings_of(OptimizerKind::sgd_momentum), sgd_momentum);
  expect_rule(lion_settings(), lion);
}

// The rule that GPUs take: its values on the CPU.
struct Ahead {
  explicit Ahead(at::ScalarType dtype)
      : context(test_environment(), {}, {.dtype = dtype}),
        layer(context, {.in = 3, .out = 2}),
        parameters(context.materialize(*layer, 1)),
        optimizer(make_rule<OptimizerKind::adamw>(context, parameters, {.learning_rate = 0.1, .ema = 0.9})) {}

  // A step with these options; the gradients grow.
  UpdateReport step(int number, const UpdateOptions& options) {
    auto work = context.begin_step();
    const auto input = at::arange(12, context.options().dtype).view({4, 3}).sin() * number;
    mean(layer(input).square().sum(), 8, context).backward();
    work.finish();
    return optimizer->step(options);
  }

  Context context;
  Linear layer;
  Parameters parameters;
  std::unique_ptr<Optimizer> optimizer;
};

TEST(OptimizerRules, AnUpdateAheadIsTheUpdateWithWaits) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    Ahead ahead(dtype), waits(dtype);
    const double rounding = dtype == at::kDouble ? 1e-14 : 1e-6;
    for (int step = 1; step <= 4; ++step) {
      const UpdateReport expected = waits.step(step, {.max_norm = 0.5}),
                         found = ahead.step(step, {.max_norm = 0.5, .loss = at::ones({}, dtype)});
      EXPECT_NEAR(found.norm.item<double>(), expected.gradient_norm, rounding);
    }
    for (size_t i = 0; i < waits.optimizer->state().size(); ++i)
      EXPECT_LE((ahead.optimizer->state()[i].tensor - waits.optimizer->state()[i].tensor).abs().max().item<double>(),
                rounding)
          << waits.optimizer->state()[i].name;
  }
}

TEST(OptimizerRules, AnUpdateAheadThatIsRefusedChangesNothingNorDoLaterOnes) {
  Ahead ahead(at::kFloat);
  ahead.step(1, {.loss = at::ones({})});
  std::vector<at::Tensor> before;
  for (const OptimizerState& state : ahead.optimizer->state()) before.push_back(state.tensor.clone());
  EXPECT_TRUE(std::isnan(ahead.step(2, {.loss = at::full({}, INFINITY)}).norm.item<double>()));
  EXPECT_TRUE(std::isfinite(ahead.step(3, {.max_norm = 1, .loss = at::ones({})}).norm.item<double>()));
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(ahead.optimizer->state()[i].tensor.equal(before[i])) << i;
}

TEST(OptimizerRules, ProgramsDoNotRunAhead) {
  Context context(test_environment(), {}, {});
  Linear layer(context, {.in = 3, .out = 2});
  const Parameters parameters = context.materialize(*layer, 1);
  const auto optimizer = make_optimizer(context, parameters, {});
  auto work = context.begin_step();
  mean(layer(at::ones({4, 3})).sum(), 8, context).backward();
  work.finish();
  EXPECT_USER_ERROR(optimizer->step({.loss = at::ones({})}), "only AdamW on a GPU", "poisoned");
}

TEST(OptimizerRules, NeedGradients) {
  Context context(test_environment(), {}, {});
  Linear layer(context, {.in = 3, .out = 2});
  const Parameters parameters = context.materialize(*layer, {.seed = 1, .trains = false});
  EXPECT_FALSE(parameters.arena().has_gradients());
  EXPECT_FALSE(parameters["weight"].trained());
  EXPECT_USER_ERROR(make_optimizer(context, parameters, {}), "these parameters have no gradients");
}

TEST(OptimizerRules, NameWrongSettings) {
  Context context(test_environment(), {}, {});
  Linear layer(context, {.in = 3, .out = 2});
  const Parameters parameters = context.materialize(*layer, 1);
  OptimizerSettings settings = lion_settings();
  settings.set = {{"beta3", 0.1}};
  EXPECT_USER_ERROR(make_optimizer(context, parameters, settings), "lion has no setting 'beta3'", "beta1, beta2");
  OptimizerSettings unused = lion_settings();
  unused.beta2 = 0.9;
  EXPECT_USER_ERROR(check_optimizer(unused), "lion.program has settings of its own", "--optimizer-set beta2=0.9");
  settings.file = "missing.program";
  EXPECT_USER_ERROR(make_optimizer(context, parameters, settings), "missing.program");
}

}  // namespace
}  // namespace axonn
