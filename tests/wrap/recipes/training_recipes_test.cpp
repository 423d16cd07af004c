// Habits of LibTorch's training programs around the module: groups of an optimizer, means, samplers
// and scaled losses.
#include <cmath>
#include <limits>
#include <set>

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "axonn/layers/loss.hpp"
#include "axonn/optim/loss_scale.hpp"
#include "axonn/wrap/decay_groups.hpp"
#include "axonn/wrap/parallelize.hpp"
#include "axonn/wrap/row_sampler.hpp"
#include "axonn/wrap/state_dict.hpp"
#include "axonn/wrap/unscale_grad.hpp"
#include "support/shared_directory.hpp"
#include "support/user_error.hpp"
#include "wrap/recipes/recipe_grids.hpp"
#include "wrap/wrapped.hpp"

namespace axonn {
namespace {

using namespace test;

at::Tensor gradient(const at::Tensor& each) { return each.grad(); }
at::Tensor value(const at::Tensor& each) { return each; }

// As a program of one process writes it.
template <typename Options>
std::vector<torch::optim::OptimizerParamGroup> plain_groups(torch::nn::Module& net, const Options& options) {
  std::vector<at::Tensor> decayed, others;
  std::set<void*> seen;
  for (const at::Tensor& each : net.parameters())
    if (each.requires_grad() && seen.insert(each.unsafeGetTensorImpl()).second)
      (each.dim() >= 2 ? decayed : others).push_back(each);
  Options without = options;
  without.weight_decay(0);
  return {{decayed, std::make_unique<Options>(options)}, {others, std::make_unique<Options>(without)}};
}

template <typename Optimizer, typename Options>
void expect_decay(const Options& options, double bound) {
  for (const GridShape& grid : recipe_grids()) {
    Context context(test_environment(), grid, {.dtype = at::kDouble});
    const auto plain = network<Tied>(), net = network<Tied>();
    const WrappedModule parameters = shard(context, *net);
    Optimizer plain_optimizer(plain_groups(*plain, options), options),
        optimizer(decay_groups(parameters, options), options);
    EXPECT_EQ(optimizer.param_groups()[0].params().size(), plain_optimizer.param_groups()[0].params().size());
    for (int step = 0; step < 3; ++step) {
      auto open = context.begin_step();
      my_loss(*net, context, step).backward();
      open.finish();
      optimizer.step();
      loss(*plain, step, 0, kRows).backward();
      plain_optimizer.step();
      plain_optimizer.zero_grad();
    }
    expect_local(parameters, of_plain(*plain, value), false, bound, grid.to_string());
  }
}

TEST(DecayGroups, AreThoseOfOneProcess) {
  using namespace torch::optim;
  expect_decay<AdamW>(AdamWOptions(1e-4).weight_decay(20), 1e-10);
  expect_decay<Adam>(AdamOptions(1e-4).weight_decay(0.5), 1e-10);
  expect_decay<SGD>(SGDOptions(1e-3).momentum(0.9).weight_decay(0.5), 1e-12);
  expect_decay<RMSprop>(RMSpropOptions(1e-4).weight_decay(0.5), 1e-10);
  expect_decay<Adagrad>(AdagradOptions(1e-4).weight_decay(0.5), 1e-10);
}

TEST(DecayGroups, KnowTheDimsOfSplitWeights) {
  Context context(test_environment(), recipe_grids().front(), {.dtype = at::kDouble});
  torch::nn::Sequential net(torch::nn::Linear(40, 64), torch::nn::Tanh(), torch::nn::Linear(64, 40));
  net->to(torch::kDouble);
  const WrappedModule parameters = context.shape().x > 1 ? parallelize(context, *net) : shard(context, *net);
  const auto sizes = whole_sizes(parameters);
  ASSERT_EQ(sizes.size(), 4);
  for (size_t i = 0; i < sizes.size(); ++i)
    EXPECT_EQ(sizes[i].size(), parameters.names()[i].ends_with("weight") ? 2 : 1) << parameters.names()[i];
  EXPECT_USER_ERROR(decay_groups(parameters, torch::optim::AdamOptions(1e-3)), "no weight decay", "weight_decay(0.1)");
}

// A state saved with groups goes on without them, and the other way round.
TEST(DecayGroups, LeaveFilesAsTheyAre) {
  const auto options = torch::optim::AdamWOptions(1e-3).weight_decay(0.1);
  Context context(test_environment(), recipe_grids().front(), {.dtype = at::kDouble});
  const SharedDirectory directory;
  if (context.rank() == 0) std::filesystem::create_directories(directory.path());
  directory.barrier();
  const auto net = network<Tied>();
  const WrappedModule parameters = shard(context, *net);
  torch::optim::AdamW grouped(decay_groups(parameters, options)), flat(parameters.local(), options),
      again(decay_groups(parameters, options));
  auto open = context.begin_step();
  my_loss(*net, context, 0).backward();
  open.finish();
  grouped.step();
  save_optimizer(parameters, grouped, directory / "grouped");
  load_optimizer(parameters, flat, directory / "grouped");
  save_optimizer(parameters, flat, directory / "flat");
  load_optimizer(parameters, again, directory / "flat");
  for (const at::Tensor& each : parameters.local()) {
    const auto state = [&](torch::optim::AdamW& of) {
      return dynamic_cast<torch::optim::AdamWParamState&>(*of.state().at(each.unsafeGetTensorImpl()));
    };
    EXPECT_EQ(state(again).step(), 1);
    EXPECT_TRUE(state(again).exp_avg_sq().equal(state(grouped).exp_avg_sq()));
  }
}

struct Classifier : torch::nn::Module {
  Classifier() : first(12, 96), second(96, 7) {
    register_module("first", first);
    register_module("second", second);
  }
  at::Tensor forward(const at::Tensor& x) { return torch::log_softmax(second(torch::tanh(first(x))), 1); }
  torch::nn::Linear first, second;
};

at::Tensor mean_loss(Classifier& net, int64_t first, int64_t rows) {
  torch::manual_seed(3);
  const at::Tensor inputs = torch::randn({kRows, 12}, torch::kDouble), targets = torch::randint(7, {kRows});
  return torch::nll_loss(net.forward(inputs.narrow(0, first, rows)), targets.narrow(0, first, rows));
}

enum class Share { equal, unequal, none_of_the_first };

// The first of this rank's rows, and how many.
std::pair<int64_t, int64_t> rows_of(Share share, const RowShare& of) {
  const auto begin = [&](int64_t group) {
    if (share == Share::equal) return kRows * group / of.groups;
    if (share == Share::unequal) return kRows * group * (group + 1) / (of.groups * (of.groups + 1));
    return of.groups == 1 ? kRows * group : kRows * std::max<int64_t>(group - 1, 0) / (of.groups - 1);
  };
  return {begin(of.mine), begin(of.mine + 1) - begin(of.mine)};
}

TEST(MeanOverRanks, IsTheMeanOfOneProcess) {
  const auto plain = network<Classifier>();
  const at::Tensor need = mean_loss(*plain, 0, kRows);
  need.backward();
  for (const GridShape& grid : recipe_grids())
    for (const Share share : {Share::equal, Share::unequal, Share::none_of_the_first})
      for (const int micro_batches : {1, 2}) {
        Context context(test_environment(), grid, {.dtype = at::kDouble});
        const auto net = network<Classifier>();
        const WrappedModule parameters = shard(context, *net);
        const auto [first, rows] = rows_of(share, context.row_share());
        double got = 0;
        auto open = context.begin_step({.micro_batches = micro_batches});
        for (int64_t done = 0, micro = 0; micro < micro_batches; ++micro) {
          const int64_t now = micro + 1 == micro_batches ? rows - done : rows / 3;
          const at::Tensor loss = mean_over_ranks(mean_loss(*net, first + done, now), static_cast<double>(now), context,
                                                  static_cast<double>(rows));
          loss.backward();
          got += loss.item<double>();
          done += now;
        }
        open.finish();
        EXPECT_NEAR(got, need.item<double>(), 1e-12 * need.item<double>());
        expect_local(parameters, of_plain(*plain, gradient), true, 1e-12, grid.to_string());
      }
}

TEST(MeanOverRanks, RefusesWhatHasNoMean) {
  Context context(test_environment(), recipe_grids().front(), {.dtype = at::kDouble});
  const at::Tensor one = torch::ones({}, torch::kDouble);
  EXPECT_USER_ERROR(mean_over_ranks(one, 0, context), "no rank has a row");
  EXPECT_USER_ERROR(mean_over_ranks(torch::ones({2}), 2, context), "one number", "2 numbers");
  EXPECT_USER_ERROR(mean_over_ranks(one, 3, context, 2), "at least as many in the step");
}

// Every batch is that of one process, cut by rows.
template <typename All>
void expect_batches(int64_t examples, size_t batch_size, int64_t batches_of_two_shares) {
  for (const GridShape& grid : recipe_grids()) {
    Context context(test_environment(), grid, {.dtype = at::kDouble});
    All all(static_cast<size_t>(examples));
    RowSampler sampler(context, all);
    for (int epoch = 0; epoch < 2; ++epoch) {
      all.reset(static_cast<size_t>(examples));
      sampler.reset(static_cast<size_t>(examples));
      int64_t batches = 0;
      for (; const auto batch = sampler.next(batch_size); ++batches) {
        const at::Tensor mine = torch::zeros({examples}, torch::kDouble), need = mine.clone();
        for (const size_t index : *batch) mine[static_cast<int64_t>(index)] += 1;
        const auto whole = all.next(batch_size);
        ASSERT_TRUE(whole.has_value());
        for (const size_t index : *whole) need[static_cast<int64_t>(index)] += 1;
        const auto sum = [&](AxisSet axes) {
          return context.scheduler().all_reduce(mine.clone(), axes, "seen").wait();
        };
        EXPECT_TRUE(sum({Axis::x, Axis::y}).equal(mine * (grid.x * grid.y))) << grid.to_string();
        EXPECT_TRUE(sum(kRowAxes).equal(need)) << grid.to_string();
      }
      EXPECT_EQ(batches, batches_of_two_shares + (context.row_share().groups == 1 && examples % batch_size == 1));
    }
  }
}

TEST(RowSampler, CutsTheBatchesOfOneProcess) {
  using namespace torch::data::samplers;
  expect_batches<DistributedRandomSampler>(37, 8, 5);  // 5 rows are left, of which shares differ
  expect_batches<SequentialSampler>(37, 8, 5);
  expect_batches<DistributedRandomSampler>(33, 8, 4);  // the last row is less than a share
}

// Gradients of 1e-8 are zeros in fp16, unless the loss is scaled.
at::Tensor small_loss(Classifier& net, const Context& context, at::ScalarType type) {
  torch::manual_seed(3);
  const at::Tensor inputs = torch::randn({kRows, 12}).to(type);
  const auto [first, rows] = rows_of(Share::equal, context.row_share());
  const at::Tensor hidden = net.second(torch::tanh(net.first(inputs.narrow(0, first, rows))));
  return hidden.to(torch::kFloat).sum() * 1e-8;
}

TEST(UnscaleGrad, TrainsInFp16) {
  const auto plain = network<Classifier>();
  plain->to(torch::kFloat);
  Context alone = Context::plan({.data = 1});
  small_loss(*plain, alone, torch::kFloat).backward();
  for (const GridShape& grid : recipe_grids()) {
    Context context(test_environment(), grid, {.dtype = at::kHalf});
    const auto net = network<Classifier>();
    net->to(torch::kFloat);
    const WrappedModule parameters = shard(context, *net);
    torch::optim::SGD optimizer(parameters.local(), 1e-3);
    LossScale scale({.initial = std::ldexp(1, 46)});
    int64_t steps = 0;
    for (; scale.state().good == 0; ++steps) {
      const at::Tensor before = parameters.local()[0].detach().clone();
      auto open = context.begin_step();
      (small_loss(*net, context, at::kHalf) * scale.value()).backward();
      open.finish();
      if (unscale_grad_(parameters, scale.value())) {
        expect_local(parameters, of_plain(*plain, gradient), true, 0.01, grid.to_string());
        optimizer.step();
        scale.applied();
      } else {
        ASSERT_TRUE(scale.skipped());
      }
      EXPECT_TRUE(parameters.local()[0].equal(before) || scale.state().good == 1);
    }
    EXPECT_GT(steps, 1);
    EXPECT_EQ(scale.state().skipped, steps - 1);
    auto open = context.begin_step();
    small_loss(*net, context, at::kHalf).backward();
    open.finish();
    EXPECT_EQ(parameters.local()[0].grad().count_nonzero().item<int64_t>(), 0) << "needs a scale";
  }
}

// An overflow in the range of one rank is one of all.
TEST(UnscaleGrad, AllRanksLeaveTheStepOut) {
  for (const GridShape& grid : recipe_grids()) {
    Context context(test_environment(), grid, {.dtype = at::kHalf});
    const auto net = network<Classifier>();
    net->to(torch::kFloat);
    const WrappedModule parameters = shard(context, *net);
    EXPECT_USER_ERROR(unscale_grad_(parameters, 2), "no gradient");
    auto open = context.begin_step();
    (small_loss(*net, context, at::kHalf) * 1e5).backward();
    open.finish();
    EXPECT_USER_ERROR(unscale_grad_(parameters, 0), "must be positive");
    EXPECT_TRUE(unscale_grad_(parameters, 1e5)) << grid.to_string();
    if (context.at().z == 0) parameters.local()[0].grad()[0] = std::numeric_limits<double>::infinity();
    EXPECT_FALSE(unscale_grad_(parameters, 1e5)) << grid.to_string();
  }
}

}  // namespace
}  // namespace axonn
