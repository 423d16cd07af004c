// Plain modules on several ranks beside one rank.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>

#include "axonn/optim/scattered_optimizer.hpp"
#include "axonn/train/scattered_checkpoint.hpp"
#include "support/rank_test.hpp"
#include "support/shared_directory.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using test::SharedDirectory;

constexpr int64_t kRows = 24, kWords = 61, kWidth = 40;

// A module of LibTorch's layers, with tensors of 1 to 9600 elements, and one tied weight.
struct Net : torch::nn::Module {
  explicit Net(int64_t seed)
      : words(kWords, kWidth), norm(torch::nn::LayerNormOptions({kWidth})), up(kWidth, 240), down(240, kWidth) {
    register_module("words", words);
    register_module("norm", norm);
    register_module("up", up);
    register_module("down", down);
    scale = register_parameter("scale", torch::ones({}));
    tied = register_parameter("tied", words->weight);
    frozen = register_parameter("frozen", torch::ones({5}), /*requires_grad=*/false);
    const at::NoGradGuard no_grad;
    for (auto& each : parameters())
      if (each.requires_grad())
        each.copy_(((torch::arange(each.numel(), torch::kDouble) + 7.0 * static_cast<double>(seed)) * 12.9898)
                       .sin()
                       .mul(0.1)
                       .view(each.sizes()));
  }
  // The sum over rows [first, first + rows) of a step, over the number of all rows.
  torch::Tensor loss(int64_t step, int64_t first, int64_t rows) {
    const auto ids = (torch::arange(first, first + rows) * 5 + step * kRows).remainder(kWords);
    const auto middle = torch::gelu(up(norm(words(ids))));
    const auto scores = torch::matmul(down(middle), tied.t()) * scale;
    return torch::nn::functional::cross_entropy(
               scores, (ids + 1).remainder(kWords),
               torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum)) /
           static_cast<double>(kRows);
  }

  torch::nn::Embedding words;
  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
  torch::Tensor scale, tied, frozen;
};

// The net on a group of ranks, each of which has its share of the rows.
struct Training {
  Training(Communicator& group, const OptimizerSettings& settings, at::ScalarType dtype = at::kDouble, int64_t seed = 1)
      : ranks(group), net(std::make_shared<Net>(seed)) {
    net->to(dtype);
    optimizer = std::make_unique<ScatteredOptimizer>(ranks, *net, settings);
  }
  void step(int64_t number) {
    const int64_t rows = kRows / ranks.size();
    net->loss(number, ranks.rank() * rows, rows).backward();
    const UpdateReport report = optimizer->step({.max_norm = 0.5});
    EXPECT_TRUE(report.applied);
    norms.push_back(report.gradient_norm);
  }
  void steps(int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) step(i);
  }
  std::vector<at::Tensor> weights() const {
    std::vector<at::Tensor> copies;
    for (const auto& each : net->parameters()) copies.push_back(each.detach().clone());
    return copies;
  }

  Communicator& ranks;
  std::shared_ptr<Net> net;
  std::unique_ptr<ScatteredOptimizer> optimizer;
  std::vector<double> norms;
};

std::unique_ptr<Communicator> this_rank() {
  Environment& environment = test_environment();
  return environment.communicator({.axes = {}, .ranks = {environment.rank()}, .index = 0}, "this rank");
}

// The first ranks of the job; null elsewhere.
std::unique_ptr<Communicator> first_ranks(int count) {
  Environment& environment = test_environment();
  std::vector<int> ranks;
  for (int rank = 0; rank < count; ++rank) ranks.push_back(rank);
  if (environment.rank() >= count) return nullptr;
  return environment.communicator({.axes = {}, .ranks = ranks, .index = environment.rank()}, "first");
}

double difference(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& need) {
  double worst = 0;
  for (size_t i = 0; i < need.size(); ++i)
    worst = std::max(worst, ((got[i] - need[i]).abs().max() / need[i].abs().max()).item<double>());
  return worst;
}

bool equal(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& need) {
  for (size_t i = 0; i < need.size(); ++i)
    if (!got[i].equal(need[i])) return false;
  return true;
}

const OptimizerSettings kAdamW = {.kind = OptimizerKind::adamw, .learning_rate = 1e-4};
const OptimizerSettings kLamb = {.kind = OptimizerKind::lamb, .learning_rate = 1e-3};
const OptimizerSettings kSgd = {.kind = OptimizerKind::sgd_momentum, .learning_rate = 1e-2};

TEST(ScatteredOptimizer, TrainsAPlainModuleAsOneRankDoes) {
  const auto one = this_rank();
  for (const auto& [settings, tolerance] : {std::pair(kSgd, 1e-12), {kAdamW, 1e-10}, {kLamb, 1e-10}}) {
    // Other values on the other ranks: rank 0's count.
    Training together(test_environment().world(), settings, at::kDouble, 1 + test_environment().rank());
    Training reference(*one, settings);
    together.steps(0, 5);
    reference.steps(0, 5);
    EXPECT_LE(difference(together.weights(), reference.weights()), tolerance);
    for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(together.norms[i] / reference.norms[i], 1, 1e-11);
  }
}

TEST(ScatteredOptimizer, GivesTheSameBitsUnderBothSchedulesOnEveryRank) {
  Communicator& world = test_environment().world();
  OptimizerSettings other = kAdamW;
  other.schedule = UpdateSchedule::rs_opt_ag;
  Training fused(world, kAdamW, at::kFloat), parts(world, other, at::kFloat);
  fused.steps(0, 3);
  parts.steps(0, 3);
  EXPECT_TRUE(equal(fused.weights(), parts.weights()));
  for (const at::Tensor& weight : fused.weights()) {
    const at::Tensor of_rank_0 = weight.clone();
    world.broadcast(of_rank_0, 0).wait();
    EXPECT_TRUE(of_rank_0.equal(weight));
  }
}

TEST(ScatteredOptimizer, KeepsOneRthOfTheStateAndStartsFewCollectives) {
  Communicator& world = test_environment().world();
  Training run(world, kAdamW, at::kFloat);
  const int64_t places = run.optimizer->arena().size();
  for (const OptimizerState& state : run.optimizer->state()) {
    if (!state.tensor.defined()) continue;  // the weights
    EXPECT_TRUE(state.own);
    const at::Tensor count = at::full({1}, state.tensor.numel(), at::kLong);
    EXPECT_LE(state.tensor.numel(), places / world.size() + BlockOwners::kBlock) << state.name;
    world.all_reduce(count).wait();
    EXPECT_EQ(count.item<int64_t>(), places) << state.name;
  }
  run.step(0);
  const int64_t before = world.counters().collectives;
  run.step(1);
  // Sums with the norm of each part, the norm, updates with the gather.
  EXPECT_EQ(world.counters().collectives - before, world.size() > 1 ? 3 : 0);
}

TEST(ScatteredOptimizer, AddsUpBackwardPasses) {
  Communicator& world = test_environment().world();
  Training whole(world, kSgd), halves(world, kSgd);
  for (int64_t i = 0; i < 3; ++i) {
    whole.step(i);
    const int64_t rows = kRows / world.size(), first = world.rank() * rows;
    halves.net->loss(i, first, rows / 2).backward();
    halves.net->loss(i, first + rows / 2, rows - rows / 2).backward();
    halves.optimizer->step({.max_norm = 0.5});
  }
  EXPECT_LE(difference(halves.weights(), whole.weights()), 1e-12);
}

TEST(ScatteredOptimizer, SavesAndLoadsOnOtherNumbersOfRanks) {
  const SharedDirectory shared;
  Environment& environment = test_environment();
  for (const OptimizerSettings& settings : {kAdamW, kLamb}) {
    const auto directory = shared / std::string(to_string(settings.kind));
    Training whole(environment.world(), settings);
    whole.steps(0, 2);
    save_checkpoint(*whole.optimizer, directory, {.run = "test", .samples = 48});
    whole.steps(2, 4);
    for (int ranks = 1; ranks <= environment.ranks(); ++ranks) {
      if (kRows % ranks != 0) continue;
      const auto group = first_ranks(ranks);
      if (!group) continue;
      Training resumed(*group, settings, at::kDouble, 9);
      EXPECT_EQ(load_checkpoint(*resumed.optimizer, directory).samples, 48);
      EXPECT_EQ(resumed.optimizer->steps_taken(), 2);
      resumed.steps(2, 4);
      EXPECT_LE(difference(resumed.weights(), whole.weights()), 1e-10) << ranks;
      EXPECT_TRUE(ranks < environment.ranks() || equal(resumed.weights(), whole.weights()));
    }
  }
}

// As on hosts whose folders are not shared.
TEST(ScatteredOptimizer, RanksLoadOneCheckpoint) {
  const SharedDirectory shared;
  Communicator& world = test_environment().world();
  if (world.size() == 1) GTEST_SKIP() << "one rank has one checkpoint";
  Training run(world, kAdamW);
  for (const char* const directory : {"a", "b"}) {
    run.steps(0, 1);
    save_checkpoint(*run.optimizer, shared / directory);
  }
  const int last = world.size() - 1;
  EXPECT_USER_ERROR(load_checkpoint(*run.optimizer, shared / (world.rank() == last ? "b" : "a")),
                    "rank " + std::to_string(last) + " has the checkpoint to load = ", "b and rank 0 has ");
}

TEST(ScatteredOptimizer, InBf16KeepsMasterWeightsAndResumesWithTheSameBits) {
  const SharedDirectory shared;
  Communicator& world = test_environment().world();
  OptimizerSettings settings = kAdamW;
  settings.ema = 0.5;
  Training run(world, settings, at::kBFloat16), resumed(world, settings, at::kBFloat16, 9);
  run.steps(0, 2);
  save_checkpoint(*run.optimizer, shared / "bf16");
  load_checkpoint(*resumed.optimizer, shared / "bf16");
  EXPECT_TRUE(equal(resumed.weights(), run.weights()));
  run.steps(2, 4);
  resumed.steps(2, 4);
  EXPECT_TRUE(equal(resumed.weights(), run.weights()));
  const auto before = run.weights();
  {
    const auto average = run.optimizer->use_average();
    EXPECT_FALSE(equal(run.weights(), before));
  }
  EXPECT_TRUE(equal(run.weights(), before));
}

// Refused in the constructor, by all ranks, with the same sentence.
void expect_refused(const std::function<std::vector<NamedTensor>(int rank)>& tensors,
                    const std::vector<std::string>& parts, const OptimizerSettings& settings = kAdamW) {
  Communicator& world = test_environment().world();
  const std::string sentence = test::user_error([&] { ScatteredOptimizer(world, tensors(world.rank()), settings); });
  for (const std::string& part : parts) EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
}

at::Tensor leaf(std::vector<int64_t> sizes, at::ScalarType dtype = at::kFloat) {
  return at::zeros(sizes, dtype).set_requires_grad(true);
}

TEST(ScatteredOptimizer, RefusesTensorsByName) {
  const at::Tensor whole = at::zeros({100});
  const auto view = [&](int64_t begin) { return whole.narrow(0, begin, 60).detach().set_requires_grad(true); };
  expect_refused([&](int) { return std::vector<NamedTensor>{{"a", view(0)}, {"b", view(40)}}; },
                 {"'a' and 'b' share memory", "clone() views"});
  expect_refused([&](int) { return std::vector<NamedTensor>{{"a", at::zeros({4, 6}).t().set_requires_grad(true)}}; },
                 {"'a' is not contiguous", ".contiguous()"});
  expect_refused([&](int) { return std::vector<NamedTensor>{{"a", leaf({4})}, {"b", leaf({4}, at::kDouble)}}; },
                 {"'a' is of Float and 'b' of Double", "convert all to one type"});
  expect_refused([&](int) { return std::vector<NamedTensor>{{"a", at::zeros({4})}}; },
                 {"no tensor requires a gradient", "requires_grad_()"});
  expect_refused([&](int) { return std::vector<NamedTensor>{{"a", leaf({4}) * 2}}; },
                 {"'a' is computed from other tensors"});
  expect_refused([&](int) { return std::vector<NamedTensor>{{"a", at::Tensor()}}; }, {"'a' is an undefined tensor"});
  OptimizerSettings whole_state = kAdamW;
  whole_state.schedule = UpdateSchedule::ar_opt;
  expect_refused([&](int) { return std::vector<NamedTensor>{{"a", leaf({4})}}; },
                 {"schedule ar-opt keeps the whole state on each rank", "choose fuse or rs-opt-ag"}, whole_state);
}

TEST(ScatteredOptimizer, RefusesRanksWithOtherTensors) {
  const int last = test_environment().ranks() - 1;
  if (last == 0) return;
  const std::string who = "rank " + std::to_string(last) + " has ", cure = "make the same tensors on every rank";
  const auto differ = [&](const NamedTensor& there, const std::vector<std::string>& parts) {
    expect_refused(
        [&](int rank) {
          return std::vector<NamedTensor>{{"a", leaf({4})}, rank == last ? there : NamedTensor{"b", leaf({2, 3})}};
        },
        parts);
  };
  differ({"b", leaf({3, 2})}, {who + "'b' [3, 2] of Float where rank 0 has 'b' [2, 3] of Float", cure});
  differ({"b", leaf({2, 3}, at::kDouble)}, {who + "'b' [2, 3] of Double where rank 0 has 'b' [2, 3] of Float", cure});
  differ({"c", leaf({2, 3})}, {who + "'c' [2, 3] of Float where rank 0 has 'b'", cure});
  expect_refused(
      [&](int rank) {
        std::vector<NamedTensor> tensors = {{"a", leaf({4})}};
        if (rank != last) tensors.push_back({"b", leaf({2, 3})});
        return tensors;
      },
      {who + "no more tensors where rank 0 has 'b' [2, 3] of Float", cure});
}

TEST(ScatteredOptimizer, RefusesAStepWithoutAGradient) {
  const at::Tensor used = leaf({4}), unused = leaf({4});
  ScatteredOptimizer optimizer(test_environment().world(), {{"used", used}, {"unused", unused}}, kAdamW);
  used.sum().backward();
  EXPECT_USER_ERROR(optimizer.step(), "'unused' got no gradient since the last step", "requires_grad_(false)");
  unused.sum().backward();
  EXPECT_TRUE(optimizer.step().applied);
  EXPECT_USER_ERROR(optimizer.step(), "got no gradient since the last step");
}

TEST(ScatteredOptimizer, RefusesMemoryThatChangedBetweenSteps) {
  const at::Tensor first = leaf({4}), second = leaf({5});
  ScatteredOptimizer optimizer(test_environment().world(), {{"first", first}, {"second", second}}, kAdamW);
  const auto pass = [&] { (first.sum() + second.sum()).backward(); };
  pass();
  optimizer.step();
  second.mutable_grad() = at::Tensor();  // as Module::zero_grad() does
  pass();
  EXPECT_USER_ERROR(optimizer.step(), "the gradient of 'second' lies in other memory", "leave zero_grad() out");
  const at::Tensor other = leaf({5});
  ScatteredOptimizer again(test_environment().world(), {{"first", first}, {"other", other}}, kAdamW);
  other.set_data(at::ones({5}));
  (first.sum() + other.sum()).backward();
  EXPECT_USER_ERROR(again.step(), "'other' lies in other memory", "copy_() new values into it");
}

// Autograd notices that a weight was updated between forward and backward.
TEST(ScatteredOptimizer, AutogradSeesThatWeightsChanged) {
  const at::Tensor weight = leaf({4});
  ScatteredOptimizer optimizer(test_environment().world(), {{"weight", weight}}, kAdamW);
  const at::Tensor saved = (weight * weight).sum();
  weight.sum().backward();
  optimizer.step();
  EXPECT_THROW(saved.backward(), c10::Error);
}

}  // namespace
}  // namespace axonn
