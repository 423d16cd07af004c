// Replicas that differ are found before the next step, by name, on every rank; and a moving average
// of the weights.
#include <torch/nn/utils/clip_grad.h>

#include "axonn/wrap/average.hpp"
#include "axonn/wrap/state_dict.hpp"
#include "wrap/fence/habits.hpp"

namespace axonn {
namespace {

using namespace test;

bool first_rank() { return test_environment().rank() == 0; }
bool alone() { return test_environment().ranks() == 1; }

TEST(ReplicasDiffer, AnotherLearningRate) {
  if (alone()) GTEST_SKIP() << "one rank has no replica";
  Program program;
  for (auto& group : program.optimizer.param_groups())
    static_cast<torch::optim::SGDOptions&>(group.options()).lr(first_rank() ? 0.2 : 0.1);
  program.step();
  EXPECT_USER_ERROR(program.context.begin_step(), "the weights of", "'a.", "' over ", "learning rate");
}

TEST(ReplicasDiffer, TorchsOwnClip) {
  if (alone()) GTEST_SKIP() << "one rank has no replica";
  Program program({.z = test_environment().ranks()});
  program.pass();
  torch::nn::utils::clip_grad_norm_(program.parameters.local(), 0.1);
  program.optimizer.step();
  EXPECT_USER_ERROR(program.context.begin_step(), "bias'", "clip_grad_norm_");
}

TEST(ReplicasDiffer, AWeightThatOneRankWrote) {
  if (alone()) GTEST_SKIP() << "one rank has no replica";
  Program program({.data = test_environment().ranks()});
  {
    const at::NoGradGuard no_grad;
    if (first_rank()) program.parameters.local()[0].fill_(7);
  }
  EXPECT_USER_ERROR(program.context.begin_step(), "'a.weight' over data");
  Program saved({.data = test_environment().ranks()});
  for (int i = 0; i < 5; ++i) saved.step();
  {
    const at::NoGradGuard no_grad;
    if (first_rank()) saved.parameters.local()[1].fill_(7);
  }
  EXPECT_USER_ERROR(save_state_dict(saved.parameters, "nothing.safetensors"), "'a.bias' over");
}

TEST(ReplicasDiffer, OtherRowsAlongXAndY) {
  const int ranks = test_environment().ranks();
  if (ranks == 1) GTEST_SKIP() << "one rank has no replica";
  for (const GridShape& grid : {GridShape{.x = ranks}, GridShape{.y = ranks}}) {
    Program program(grid);
    auto step = program.context.begin_step();
    torch::manual_seed(static_cast<uint64_t>(test_environment().rank()));
    program.net->forward(torch::randn({4, 40}, torch::kDouble)).pow(2).sum().backward();
    EXPECT_USER_ERROR(step.finish(), "the gradients of", "'a.weight' over", "same rows");
  }
}

TEST(ReplicasDiffer, EveryHundredthStepAndNeverAtZero) {
  if (alone()) GTEST_SKIP() << "one rank has no replica";
  for (const int64_t every : {int64_t{4}, int64_t{0}}) {
    Program program({.data = test_environment().ranks()}, {.check_replicas = every});
    for (int i = 0; i < 3; ++i) program.step();
    {
      const at::NoGradGuard no_grad;
      if (first_rank()) program.parameters.local()[0].mul_(2);
    }
    program.step();
    if (every > 0) {
      EXPECT_USER_ERROR(program.context.begin_step(), "after step 4", "'a.weight'");
    } else {
      program.step();
    }
  }
}

TEST(Average, IsThatOfOneProcessAndGivesTheWeightsBack) {
  const auto plain = network<Habits>();
  torch::optim::SGD optimizer(plain->parameters(), torch::optim::SGDOptions(0.1));
  std::vector<at::Tensor> expected;
  for (const at::Tensor& each : plain->parameters()) expected.push_back(each.detach().clone());
  for (int64_t n = 1; n <= 4; ++n) {
    optimizer.zero_grad();
    (plain->forward(rows_of({})).pow(2).sum() / kRows).backward();
    optimizer.step();
    const at::NoGradGuard no_grad;
    const double rate = 1 - std::min(0.9, (1.0 + static_cast<double>(n)) / (10.0 + static_cast<double>(n)));
    for (size_t i = 0; i < expected.size(); ++i) expected[i].lerp_(plain->parameters()[i], rate);
  }
  for (const GridShape& grid : wrapped_grids()) {
    Program program(grid);
    Average mean = average(program.parameters, 0.9);
    for (int i = 0; i < 4; ++i) {
      program.step();
      mean.update();
    }
    const double before = program.weight("a.weight");
    {
      const auto in_use = mean.use();
      EXPECT_USER_ERROR(program.context.begin_step(), "averages");
      EXPECT_USER_ERROR(mean.update(), "in use");
      const at::NoGradGuard no_grad;
      const auto whole = program.parameters.gathered();
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_LE((program.net->parameters()[i] - expected[i]).abs().max().item<double>(), 1e-12);
    }
    EXPECT_EQ(program.weight("a.weight"), before);
    program.step();
  }
  EXPECT_USER_ERROR(average(Program().parameters, 1.0), "below 1");
}

}  // namespace
}  // namespace axonn
