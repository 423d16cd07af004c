#include <cmath>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/layers/context.hpp"
#include "axonn/layers/linear.hpp"
#include "axonn/layers/loss.hpp"
#include "axonn/tasks/text/synthetic_tokens.hpp"
#include "support/rank_test.hpp"

namespace axonn {
namespace {

TEST(Lamb, OnEveryGridEqualsOneRank) {
  const VerificationOptions options{
      .optimizer = {.kind = OptimizerKind::lamb, .learning_rate = 1e-3}, .batch = 8, .steps = 4};
  const DecoderConfig model{
      .shape = {.layers = 2, .hidden = 24, .heads = 4, .sequence = 4, .vocabulary = 23, .tied_head = true}};
  Verifier verifier(test_environment(), options, decoder_on_synthetic_tokens(model, 1));
  for (const GridShape& grid : factorisations(test_environment().ranks()))
    for (const Difference& difference : verifier.on(grid).differences)
      EXPECT_TRUE(difference.passes()) << difference.what << " on " << grid.to_string() << ": " << difference.relative;
}

// Plain code of the paper's algorithm 2 for one matrix and one vector.
TEST(Lamb, FollowsItsAlgorithm) {
  if (test_environment().ranks() > 1) GTEST_SKIP() << "one rank shows it";
  Context context(test_environment(), {}, {.dtype = at::kDouble});
  Linear layer(context, {.in = 3, .out = 2, .bias_initial = Initial::uniform(1)});
  const Parameters parameters = context.materialize(*layer, 1);
  const OptimizerSettings how{.kind = OptimizerKind::lamb,
                              .learning_rate = 0.1,
                              .weight_decay = 0.2,
                              .beta1 = 0.8,
                              .beta2 = 0.9,
                              .epsilon = 1e-3};
  const auto optimizer = make_optimizer(context, parameters, how);
  struct Plain {
    at::Tensor w, m, v;
    double decay;
  };
  std::vector<Plain> plain;
  for (const char* name : {"weight", "bias"}) {
    const at::Tensor w = parameters[name].shard().detach().clone();
    plain.push_back({w, at::zeros_like(w), at::zeros_like(w), std::string(name) == "weight" ? how.weight_decay : 0});
  }
  for (int step = 1; step <= 3; ++step) {
    auto work = context.begin_step();
    const at::Tensor input = at::arange(12, at::kDouble).view({4, 3}).sin() + step;
    mean(layer(input).square().sum(), 8, context).backward();
    work.finish();
    size_t i = 0;
    for (const char* name : {"weight", "bias"}) {
      Plain& p = plain[i++];
      const at::Tensor g = parameters[name].gradient().clone();
      p.m = how.beta1 * p.m + (1 - how.beta1) * g;
      p.v = how.beta2 * p.v + (1 - how.beta2) * g * g;
      const at::Tensor u =
          p.m / (1 - std::pow(how.beta1, step)) / ((p.v / (1 - std::pow(how.beta2, step))).sqrt() + how.epsilon) +
          p.decay * p.w;
      p.w = p.w - how.learning_rate * (p.w.norm() / u.norm()) * u;
    }
    optimizer->step();
    EXPECT_TRUE(at::allclose(parameters["weight"].shard().detach(), plain[0].w, 1e-12, 1e-14)) << "step " << step;
    EXPECT_TRUE(at::allclose(parameters["bias"].shard().detach(), plain[1].w, 1e-12, 1e-14)) << "step " << step;
  }
}

}  // namespace
}  // namespace axonn
