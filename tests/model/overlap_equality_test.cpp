// Every overlap policy gives the bits of the blocking policy: losses and weights after some steps,
// with and without activation checkpointing, accumulation and tied weights.
#include <array>

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>

#include "axonn/layers/activation_checkpoint.hpp"
#include "axonn/layers/loss.hpp"
#include "axonn/optim/make_optimizer.hpp"
#include "axonn/train/batch_plan.hpp"
#include "model/loss_of_rows.hpp"
#include "support/rank_test.hpp"

namespace axonn {
namespace {

constexpr int kSteps = 4;

std::vector<GridShape> grids() {
  switch (test_environment().ranks()) {
    case 4:
      return {{1, 1, 1, 4}};
    case 6:
      return {{1, 2, 1, 3}};
    case 8:
      if (!tests_everything()) return {{2, 1, 2, 2}};
      return {{2, 2, 2, 1}, {1, 1, 4, 2}, {2, 1, 2, 2}};
    default:
      return {};
  }
}

OverlapPolicy policy_of(const OverlapSwitches& switches, int64_t bucket_bytes) {
  return {.switches = switches,
          .prefetch = 2,
          .outstanding = 3,
          .bucket_bytes = bucket_bytes,
          .cache_budget = {.bytes = 6 << 10}};
}

// Every combination of the other switches with small and with larger buckets, and all of them
// without buckets. Without buckets the other switches act as they do with them.
std::vector<OverlapPolicy> policies() {
  OverlapSwitches without_buckets;
  without_buckets.buckets = false;
  std::vector<OverlapPolicy> all = {policy_of(without_buckets, 1 << 10)};
  for (unsigned bits = 0; bits < kSwitchCombinations<OverlapSwitches>; ++bits)
    if (const OverlapSwitches switches = switches_of<OverlapSwitches>(bits); switches.buckets)
      for (const int64_t bytes : {1 << 10, 16 << 10}) all.push_back(policy_of(switches, bytes));
  return all;
}

std::string name_of(const OverlapPolicy& policy) {
  return to_string(policy.switches) + ", buckets of " + std::to_string(policy.bucket_bytes);
}

// The results of a run, compared bit for bit.
struct Outcome {
  at::Tensor losses;
  at::Tensor weights;
};

void expect_same_bits(const Outcome& one, const Outcome& other, const std::string& what) {
  EXPECT_TRUE(at::equal(one.losses, other.losses)) << what;
  EXPECT_TRUE(at::equal(one.weights, other.weights)) << what;
}

// The options that change the network. The number of micro-batches and the policy are chosen for
// each run.
struct Case {
  GridShape grid;
  at::ScalarType dtype;
  bool checkpointed = false;
  bool llama = false;  // with norms of heads, a window, a tied head and divided rows of both; otherwise a GPT-2
  int64_t split = 1;
  int64_t context = 1;  // ranks that divide sequences

  std::string to_string() const {
    return grid.to_string() + " " + c10::toString(dtype) + (checkpointed ? ", checkpointed" : "") +
           (llama ? ", a Llama" : "") + (context > 1 ? ", divided sequences" : "");
  }
};

// One network for many runs, each from the same weights.
class GptRuns {
 public:
  explicit GptRuns(const Case& c)
      : context_(test_environment(), c.grid,
                 {.dtype = c.dtype,
                  .forward = {.split = c.split,
                              .attention_rows = c.llama ? AttentionRows::on : AttentionRows::off,
                              .norm_rows = c.llama && c.split == 1 ? NormRows::on : NormRows::off,
                              .context = c.context}}),
        model_(context_, {.shape = shape_of(c), .dropout = 0.1, .checkpoint_every = c.checkpointed ? 1 : 0}),
        parameters_(context_.materialize(model_, 7)),
        first_weights_(parameters_.arena().master().clone()) {}

  Outcome train(const OverlapPolicy& policy, int64_t micro_batches) {
    start_again();
    context_.set_overlap(policy);
    const auto optimizer = make_optimizer(
        context_, parameters_, {.schedule = UpdateSchedule::ar_opt, .learning_rate = 1e-2});  // whole master weights
    const int64_t batch = kRankBatch * context_.row_share().groups;
    const BatchPlan plan = plan_batch(batch, kRankBatch / micro_batches, context_.shape(), context_.at(),
                                      context_.options().forward.context);
    std::vector<at::Tensor> losses;
    for (int step = 0; step < kSteps; ++step) {
      auto work = context_.begin_step({.micro_batches = static_cast<int>(plan.micro_batches)});
      for (int64_t j = 0; j < plan.micro_batches; ++j)
        losses.push_back(micro_batch(plan, plan.first_sample(step, j), batch));
      work.finish();
      optimizer->step({.max_norm = 1});
    }
    parameters_.schedule().wait_for_weights();
    return {at::stack(losses), parameters_.arena().master().clone()};
  }

 private:
  static constexpr int64_t kRankBatch = 6;

  static int64_t sequence_of(const Case& c) { return c.context == 1 ? 3 : 4 * c.context; }

  static DecoderShape shape_of(const Case& c) {
    DecoderShape shape = {.layers = 2, .hidden = 16, .heads = 2, .sequence = sequence_of(c), .vocabulary = 21};
    if (!c.llama) return shape;
    shape = rotated(shape);
    shape.gated = shape.qk_norm = shape.qkv_bias = shape.tied_head = true;
    shape.window = 2;
    return shape;
  }

  void start_again() {
    const at::NoGradGuard no_grad;
    parameters_.arena().master().copy_(first_weights_);
    parameters_.arena().round_master();
    parameters_.schedule().weights_written();
  }

  at::Tensor micro_batch(const BatchPlan& plan, int64_t first, int64_t batch) {
    context_.set_samples({.seed = 3, .first = first});
    const at::Tensor loss = test::loss_of_rows(context_, model_, first, plan.micro_batch, batch);
    loss.backward();
    return loss.detach();
  }

  Context context_;
  Decoder model_;
  Parameters parameters_;
  at::Tensor first_weights_;
};

// Eight cases that pair every two settings. Each takes a quarter of the policies; two cases whose
// settings are opposite take the same quarter. The nightly run takes every policy in every case.
TEST(OverlapPolicies, GiveTheBitsOfTheBlockingOne) {
  const std::vector<OverlapPolicy> all = policies();
  size_t turn = 0;
  for (const GridShape& grid : grids())
    for (const auto dtype : {at::kDouble, at::kBFloat16})
      for (const bool checkpointed : {false, true})
        for (const bool llama : {false, true}) {
          const Case c = {grid, dtype, checkpointed, llama};
          GptRuns runs(c);
          for (const int64_t micro_batches : {1, 3}) {
            const bool even = ((dtype == at::kDouble) + checkpointed + llama + (micro_batches > 1)) % 2 == 0;
            if (!even && !tests_everything()) continue;
            const Outcome blocking = runs.train(OverlapPolicy::none(), micro_batches);
            const size_t quarters = tests_everything() ? 1 : 4, quarter = turn++ % quarters;
            for (size_t i = dtype == at::kDouble ? quarter : quarters - 1 - quarter; i < all.size(); i += quarters)
              expect_same_bits(
                  runs.train(all[i], micro_batches), blocking,
                  c.to_string() + ", " + std::to_string(micro_batches) + " micro-batches: " + name_of(all[i]));
          }
        }
}

// With rows of queries over Y, and of norms over X, where the grid has them.
TEST(OverlapPolicies, GiveTheBitsOfTheBlockingOneWhereSequencesAreDivided) {
  const std::vector<OverlapPolicy> all = policies();
  for (const GridShape& grid :
       test_environment().ranks() == 8 ? std::vector<GridShape>{{1, 2, 4, 1}, {2, 2, 2, 1}} : std::vector<GridShape>{})
    for (const bool checkpointed : {false, true}) {
      const Case c = {grid, checkpointed ? at::kBFloat16 : at::kDouble, checkpointed, true, 1, grid.z};
      GptRuns runs(c);
      const Outcome blocking = runs.train(OverlapPolicy::none(), 3);
      for (size_t i = checkpointed ? 0 : 1; i < all.size(); i += tests_everything() ? 1 : 4)
        expect_same_bits(runs.train(all[i], 3), blocking, c.to_string() + ": " + name_of(all[i]));
    }
}

TEST(ActivationCheckpointing, GivesTheBitsOfThePlainNetwork) {
  for (const GridShape& grid : grids()) {
    GptRuns plain({grid, at::kDouble, false, true}), checkpointed({grid, at::kDouble, true, true});
    for (const int64_t micro_batches : {1, 3})
      expect_same_bits(checkpointed.train(OverlapPolicy::all(), micro_batches),
                       plain.train(OverlapPolicy::all(), micro_batches),
                       grid.to_string() + ", " + std::to_string(micro_batches) + " micro-batches");
  }
}

// The order of additions in products over rows differs, so the bits do too.
TEST(SplitForward, GivesTheNumbersOfTheWholeRows) {
  for (const GridShape& grid : grids())
    for (const bool checkpointed : {false, true}) {
      const Outcome whole = GptRuns({grid, at::kDouble, checkpointed, true}).train(OverlapPolicy::all(), 1);
      for (const int64_t parts : {2, 5}) {
        const Outcome split = GptRuns({grid, at::kDouble, checkpointed, true, parts}).train(OverlapPolicy::all(), 1);
        EXPECT_LE((split.losses - whole.losses).abs().max().item<double>(),
                  1e-12 * whole.losses.abs().max().item<double>())
            << grid.to_string() << " in " << parts << " parts";
      }
    }
}

// One weight with three consumers, two of them in recomputed blocks. Every run learns the order of
// gathers anew.
Outcome train_three_consumers(const GridShape& grid, const OverlapPolicy& policy) {
  Context context(test_environment(), grid, {.dtype = at::kDouble, .overlap = policy});
  Linear first(context, {.in = 12, .out = 12}), second(context, {.in = 12, .out = 12}, first->weight()),
      third(context, {.in = 12, .out = 12}, first->weight());
  torch::nn::Module net;
  net.register_module("first", first.ptr());
  net.register_module("second", second.ptr());
  net.register_module("third", third.ptr());
  const Parameters parameters = context.materialize(net, 7);
  const auto optimizer = make_optimizer(context, parameters, {.learning_rate = 1e-2});
  const auto block = [&](Linear& layer) {
    return [&](const std::vector<Value>& inputs) {
      const Value input = redistribute(context, inputs[0], layer->input_layout());
      return redistribute(context, layer(input), Layout::replicated()).map([](const auto& t) { return t.tanh(); });
    };
  };
  std::vector<at::Tensor> losses;
  for (int step = 0; step < kSteps; ++step) {
    auto work = context.begin_step({.micro_batches = 2});
    for (int j = 0; j < 2; ++j) {
      const double row = 100 * step + 10 * j + context.at().z + 4 * context.at().data;
      const Value input{at::sin(at::arange(36, at::kDouble).view({3, 12}) + row), 12, Layout::replicated()};
      const Value once = block(first)({input}), twice = activation_checkpoint(context, block(second), {once});
      const Value thrice = activation_checkpoint(context, block(third), {twice});
      const at::Tensor loss = mean((once.tensor + thrice.tensor).square().sum(), 36, context);
      loss.backward();
      losses.push_back(loss.detach());
    }
    work.finish();
    optimizer->step({});
  }
  parameters.schedule().wait_for_weights();
  return {at::stack(losses), parameters.arena().master().clone()};
}

TEST(OverlapPolicies, CountAWeightWithThreeConsumersOnce) {
  for (const GridShape& grid : grids()) {
    const Outcome blocking = train_three_consumers(grid, OverlapPolicy::none());
    for (const OverlapPolicy& policy : policies())
      expect_same_bits(train_three_consumers(grid, policy), blocking, grid.to_string() + ": " + name_of(policy));
  }
}

}  // namespace
}  // namespace axonn
