// Every overlap policy gives the bits of the blocking one: losses and weights after some steps, with and without activation checkpointing,
// accumulation and tied weights.
#include <array>

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>

#include "axonn/layers/activation_checkpoint.hpp"
#include "axonn/model/gpt_model.hpp"
#include "axonn/train/optimizer.hpp"
#include "axonn/train/schedule.hpp"
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
      return {{2, 2, 2, 1}, {1, 1, 4, 2}, {2, 1, 2, 2}};
    default:
      return {};
  }
}

// The 16 combinations of the four switches, each with small buckets and larger ones.
std::vector<OverlapPolicy> policies() {
  std::vector<OverlapPolicy> all;
  for (int bits = 0; bits < 16; ++bits)
    for (const int64_t bucket_bytes : {1 << 10, 16 << 10})
      all.push_back({.all_reduce = (bits & 1) != 0,
                     .reduce_scatter = (bits & 2) != 0,
                     .all_gather = (bits & 4) != 0,
                     .cache = (bits & 8) != 0,
                     .prefetch = 2,
                     .outstanding = 3,
                     .bucket_bytes = bucket_bytes,
                     .cache_bytes = 6 << 10});
  return all;
}

std::string name_of(const OverlapPolicy& policy) { return policy.switches() + ", buckets of " + std::to_string(policy.bucket_bytes); }

// What a run leaves: to be equal bit for bit.
struct Outcome {
  at::Tensor losses;
  at::Tensor weights;
};

void expect_same_bits(const Outcome& one, const Outcome& other, const std::string& what) {
  EXPECT_TRUE(at::equal(one.losses, other.losses)) << what;
  EXPECT_TRUE(at::equal(one.weights, other.weights)) << what;
}

struct Case {
  GridShape grid;
  at::ScalarType dtype;
  bool checkpointed = false;
  int64_t micro_batches = 1;
  bool tied = false;
  int64_t split = 1;

  std::string to_string() const {
    return grid.to_string() + " " + c10::toString(dtype) + (checkpointed ? ", checkpointed" : "") + (tied ? ", tied, " : ", ") +
           std::to_string(micro_batches) + " micro-batches";
  }
};

Outcome train_gpt(const Case& c, const OverlapPolicy& policy) {
  const GptConfig config = {.layers = 2,
                            .hidden = 16,
                            .heads = 2,
                            .sequence = 3,
                            .vocabulary = 21,
                            .tied_head = c.tied,
                            .dropout = 0.1,
                            .checkpoint_every = c.checkpointed ? 1 : 0,
                            .split_forward = c.split};
  Context context(test_environment(), c.grid, {.dtype = c.dtype, .overlap = policy});
  Gpt model(context, config);
  const Parameters parameters = context.materialize(model, 7);
  AdamW optimizer(context, parameters, {.learning_rate = 1e-2});
  const int64_t batch = 72;
  const BatchPlan plan = plan_batch(batch, batch / c.micro_batches / (int64_t{c.grid.z} * c.grid.data), c.grid, context.at());
  std::vector<at::Tensor> losses;
  for (int step = 0; step < kSteps; ++step) {
    auto work = context.begin_step({.micro_batches = static_cast<int>(plan.micro_batches)});
    for (int64_t j = 0; j < plan.micro_batches; ++j) {
      const int64_t first = plan.first_sample(step, j);
      context.set_samples({.seed = 3, .first = first});
      const at::Tensor ids = (at::arange(first, first + plan.micro_batch).unsqueeze(1) * 5 + at::arange(config.sequence)).remainder(21);
      const at::Tensor loss = mean(model.loss_sum(ids, (ids + 1).remainder(21)), static_cast<double>(batch * config.sequence), context);
      loss.backward();
      losses.push_back(loss.detach());
    }
    work.finish();
    optimizer.step({.max_norm = 1});
  }
  return {at::stack(losses), parameters.arena().master().clone()};
}

TEST(OverlapPolicies, GiveTheBitsOfTheBlockingOne) {
  for (const GridShape& grid : grids())
    for (const auto dtype : {at::kDouble, at::kBFloat16})
      for (const bool checkpointed : {false, true})
        for (const int64_t micro_batches : {1, 3})
          for (const bool tied : {false, true}) {
            const Case c = {grid, dtype, checkpointed, micro_batches, tied};
            const Outcome blocking = train_gpt(c, OverlapPolicy::none());
            for (const OverlapPolicy& policy : policies())
              expect_same_bits(train_gpt(c, policy), blocking, c.to_string() + ": " + name_of(policy));
          }
}

TEST(ActivationCheckpointing, GivesTheBitsOfThePlainNetwork) {
  for (const GridShape& grid : grids())
    for (const int64_t micro_batches : {1, 3}) {
      const Case plain = {grid, at::kDouble, false, micro_batches, true}, checkpointed = {grid, at::kDouble, true, micro_batches, true};
      expect_same_bits(train_gpt(checkpointed, OverlapPolicy::all()), train_gpt(plain, OverlapPolicy::all()), checkpointed.to_string());
    }
}

// Another order of additions in products over rows, so not the same bits.
TEST(SplitForward, GivesTheNumbersOfTheWholeRows) {
  for (const GridShape& grid : grids())
    for (const bool checkpointed : {false, true}) {
      const Outcome whole = train_gpt({grid, at::kDouble, checkpointed, 1, true}, OverlapPolicy::all());
      for (const int64_t parts : {2, 5}) {
        const Outcome split = train_gpt({grid, at::kDouble, checkpointed, 1, true, parts}, OverlapPolicy::all());
        EXPECT_LE((split.losses - whole.losses).abs().max().item<double>(), 1e-12 * whole.losses.abs().max().item<double>())
            << grid.to_string() << " in " << parts << " parts";
      }
    }
}

// One weight with three consumers, two of them in blocks that are run again.
Outcome train_three_consumers(const GridShape& grid, const OverlapPolicy& policy) {
  Context context(test_environment(), grid, {.dtype = at::kDouble, .overlap = policy});
  Linear first(context, {.in = 12, .out = 12}), second(context, {.in = 12, .out = 12}, first->weight()),
      third(context, {.in = 12, .out = 12}, first->weight());
  torch::nn::Module net;
  net.register_module("first", first.ptr());
  net.register_module("second", second.ptr());
  net.register_module("third", third.ptr());
  const Parameters parameters = context.materialize(net, 7);
  AdamW optimizer(context, parameters, {.learning_rate = 1e-2});
  const auto block = [&](Linear& layer) {
    return [&](const Value& input) {
      return redistribute(context, layer(redistribute(context, input, layer->input_layout())), Layout::replicated()).map([](const auto& t) {
        return t.tanh();
      });
    };
  };
  std::vector<at::Tensor> losses;
  for (int step = 0; step < kSteps; ++step) {
    auto work = context.begin_step({.micro_batches = 2});
    for (int j = 0; j < 2; ++j) {
      const double row = 100 * step + 10 * j + context.at().z + 4 * context.at().data;
      const Value input{at::sin(at::arange(36, at::kDouble).view({3, 12}) + row), 12, Layout::replicated()};
      const Value once = block(first)(input), twice = activation_checkpoint(context, block(second), once);
      const Value thrice = activation_checkpoint(context, block(third), twice);
      const at::Tensor loss = mean((once.tensor + thrice.tensor).square().sum(), 36, context);
      loss.backward();
      losses.push_back(loss.detach());
    }
    work.finish();
    optimizer.step({});
  }
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
