// Checkpoints of wrapped modules and their torch::optim optimizers. wrapped_resume_test.py kills.
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "axonn/wrap/wrapped_checkpoint.hpp"
#include "support/shared_directory.hpp"
#include "support/user_error.hpp"
#include "wrap/wrapped.hpp"

namespace axonn {
namespace {

using namespace test;

Context make_context(const GridShape& grid = wrapped_grids().front(), at::ScalarType dtype = at::kDouble) {
  return Context(test_environment(), grid, {.dtype = dtype});
}

template <typename Net, typename Optimizer>
void train(Net& net, Context& context, Optimizer& optimizer, int64_t first, int64_t last) {
  for (int64_t i = first; i < last; ++i) {
    auto step = context.begin_step();
    my_loss(net, context, i).backward();
    step.finish();
    optimizer.step();
  }
}

// A run of four steps, and one that another process continues after two.
template <typename Net, typename Optimizer, typename Options>
void expect_resumed(Options options, const ShardOptions& shards = {}) {
  const SharedDirectory directory;
  Context context = make_context();
  const auto net = network<Net>();
  const WrappedModule parameters = shard(context, *net, shards);
  Optimizer optimizer(parameters.local(), options);
  train(*net, context, optimizer, 0, 2);
  save_checkpoint(parameters, optimizer, directory.path(), {.step = 2, .samples = 24});
  train(*net, context, optimizer, 2, 4);
  Tensors trained;  // without units they are whole now
  if (shards.units.empty()) {
    const auto whole = parameters.gathered();
    trained = of_plain(*net, [](const at::Tensor& each) { return each; });
  }

  for (const GridShape& grid : wrapped_grids()) {
    Context another = make_context(grid);
    const auto other = network<Net>(9);
    const WrappedModule resumed = shard(another, *other, shards);
    Optimizer loaded(resumed.local(), options);
    const CheckpointState state = load_checkpoint(resumed, loaded, directory.path());
    EXPECT_EQ(state.step, 2);
    EXPECT_EQ(state.samples, 24);
    train(*other, another, loaded, 2, 4);
    if (!trained.empty()) expect_local(resumed, trained, false, 1e-10, grid.to_string());
    for (size_t i = 0; i < parameters.local().size() && grid == wrapped_grids().front(); ++i)
      EXPECT_TRUE(resumed.local()[i].equal(parameters.local()[i])) << parameters.names()[i];
  }
}

TEST(WrappedCheckpoint, GoesOnWithTheSameBits) {
  expect_resumed<Mnist, torch::optim::AdamW>(torch::optim::AdamWOptions(1e-3).amsgrad(true));
  expect_resumed<Mnist, torch::optim::SGD>(torch::optim::SGDOptions(1e-3).momentum(0.9));
  expect_resumed<Mnist, torch::optim::SGD>(torch::optim::SGDOptions(1e-3));
  expect_resumed<Mnist, torch::optim::Adagrad>(torch::optim::AdagradOptions(1e-3));
  expect_resumed<Tied, torch::optim::RMSprop>(torch::optim::RMSpropOptions(1e-3).momentum(0.9).centered(true));
}

TEST(WrappedCheckpoint, BuffersAreThoseOfTheFirstRank) {
  expect_resumed<ResNet, torch::optim::AdamW>(torch::optim::AdamWOptions(1e-3),
                                              {.units = {"blocks.*"}, .buffers = Buffers::first_rank});
}

// The frozen weight too: what has been gathered is gathered anew.
TEST(WrappedCheckpoint, Bf16HasMasterWeightsOfFp32) {
  const SharedDirectory directory;
  std::vector<at::Tensor> master;
  at::Tensor output;
  for (const bool loads : {false, true}) {
    Context context = make_context(wrapped_grids().front(), at::kBFloat16);
    torch::manual_seed(loads ? 9 : 1);
    torch::nn::Sequential net(torch::nn::Linear(60, 50), torch::nn::Linear(50, 40));
    for (at::Tensor& each : net->ptr(1)->parameters()) each.requires_grad_(false);
    const WrappedModule parameters = shard(context, *net);
    torch::optim::AdamW optimizer(parameters.local());
    const at::NoGradGuard no_grad;
    const auto compute = [&] {
      const auto whole = parameters.gathered();
      return net->forward(torch::ones({2, 60}, at::kBFloat16));
    };
    const at::Tensor before = compute();
    if (loads)
      load_checkpoint(parameters, optimizer, directory.path());
    else
      save_checkpoint(parameters, optimizer, directory.path(), {.step = 1});
    if (loads) {
      EXPECT_FALSE(before.equal(output));
      EXPECT_TRUE(compute().equal(output));
    }
    output = before;
    for (size_t i = 0; i < master.size(); ++i) EXPECT_TRUE(parameters.local()[i].equal(master[i]));
    for (const at::Tensor& each : parameters.local()) master.push_back(each.detach().clone());
  }
  EXPECT_EQ(master.front().scalar_type(), at::kFloat);
}

// As on hosts whose folders are not shared.
TEST(WrappedCheckpoint, IsTheSameOnAllRanks) {
  const SharedDirectory directory;
  const int last = test_environment().ranks() - 1;
  if (last == 0) GTEST_SKIP() << "one rank has one checkpoint";
  Context context = make_context();
  const auto net = network<Mnist>();
  const WrappedModule parameters = shard(context, *net);
  torch::optim::AdamW optimizer(parameters.local());
  for (const char* const run : {"a", "b"}) {
    train(*net, context, optimizer, 0, 1);
    save_checkpoint(parameters, optimizer, directory / run, {.step = 1});
  }
  const auto own = directory / (test_environment().rank() == last ? "b" : "a");
  EXPECT_USER_ERROR(load_checkpoint(parameters, optimizer, own),
                    "rank " + std::to_string(last) + " has the checkpoint to load = ", "b and rank 0 has ");
}

TEST(WrappedCheckpoint, RefusesWhatDoesNotFit) {
  const SharedDirectory directory;
  Context context = make_context();
  const auto net = network<Mnist>();
  const WrappedModule parameters = shard(context, *net);
  torch::optim::AdamW optimizer(parameters.local());
  EXPECT_USER_ERROR(load_checkpoint(parameters, optimizer, directory / "nothing"), "nothing", "checkpoint");
  train(*net, context, optimizer, 0, 1);
  save_checkpoint(parameters, optimizer, directory.path(), {.step = 1});

  torch::optim::LBFGS lbfgs(parameters.local());
  EXPECT_USER_ERROR(save_checkpoint(parameters, lbfgs, directory.path(), {.step = 2}), "not known", "AdamW");
  torch::optim::SGD sgd(parameters.local(), torch::optim::SGDOptions(0.1));
  EXPECT_USER_ERROR(load_checkpoint(parameters, sgd, directory.path()), "'exp_avg/", "optimizer have not");
  torch::optim::Adagrad adagrad(parameters.local());
  EXPECT_USER_ERROR(load_checkpoint(parameters, adagrad, directory.path()), "'exp_avg/", "optimizer have not");
  auto step = context.begin_step();
  EXPECT_USER_ERROR(save_checkpoint(parameters, optimizer, directory.path(), {.step = 2}), "between steps");
  EXPECT_USER_ERROR(load_checkpoint(parameters, optimizer, directory.path()), "between steps");
  step.abandon();

  torch::nn::Linear other(320, 50);
  other->to(torch::kDouble);
  const WrappedModule of_other = shard(context, *other);
  torch::optim::AdamW its_own(of_other.local());
  EXPECT_USER_ERROR(load_checkpoint(of_other, its_own, directory.path()), "weights/conv1.weight", "have not");
  const auto wider = network<Mnist>();
  wider->fc2 = torch::nn::Linear(50, 11);
  wider->replace_module("fc2", wider->fc2);
  wider->to(torch::kDouble);
  const WrappedModule of_wider = shard(context, *wider);
  torch::optim::AdamW its(of_wider.local());
  EXPECT_USER_ERROR(load_checkpoint(of_wider, its, directory.path()), "fc2.weight", "[10, 50]", "[11, 50]");
}

}  // namespace
}  // namespace axonn
