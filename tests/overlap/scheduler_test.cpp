// Moves, launches and allocations of the scheduler, counted on a network of three layers sharded
// over Z.
#include <functional>

#include <ATen/ops/equal.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "axonn/layers/linear.hpp"
#include "axonn/optim/make_optimizer.hpp"
#include "axonn/overlap/step/gradient_sums.hpp"
#include "axonn/overlap/step/step_optimizer.hpp"
#include "layers/layer_fixture.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

constexpr int kLayers = 3;

class Chain : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (test_environment().ranks() == 1) GTEST_SKIP() << "one rank gathers nothing";
  }

  void make(const OverlapPolicy& policy, GridShape grid = {.z = test_environment().ranks()}) {
    optimizer.reset();  // before the network that it updates
    context =
        std::make_unique<Context>(test_environment(), grid, ContextOptions{.dtype = at::kDouble, .overlap = policy});
    torch::nn::Module net;
    for (int i = 0; i < kLayers; ++i) {
      layers.emplace_back(*context, LinearOptions{.in = 16, .out = 16, .bias = false});
      net.register_module("l" + std::to_string(i), layers.back().ptr());
    }
    parameters = std::make_unique<Parameters>(context->materialize(net, 1));
    optimizer = make_optimizer(
        *context, *parameters,
        {.kind = OptimizerKind::sgd, .schedule = UpdateSchedule::ar_opt, .learning_rate = 0.1, .weight_decay = 0});
  }

  at::Tensor forward(const std::vector<int>& order) {
    Value value{at::ones({2, 16}, at::kDouble), 16, Layout::over(Axis::y)};
    for (const int i : order) {
      value = layers[static_cast<size_t>(i)](value).map([](const at::Tensor& t) { return at::tanh(t); });
      value.layout = Layout::over(Axis::y);  // x and y are 1
    }
    return value.tensor;
  }

  // The layers in the given order, forward and backward.
  void micro_batch(const std::vector<int>& order) { forward(order).sum().backward(); }

  void forward_in(Phase phase) {
    const Scheduler::InPhase in_phase(context->scheduler(), phase);
    const at::NoGradGuard no_grad;
    forward({0, 1, 2});
  }

  void step(const std::vector<int>& order = {0, 1, 2}, int micro_batches = 1) {
    auto work = context->begin_step({.micro_batches = micro_batches});
    for (int i = 0; i < micro_batches; ++i) micro_batch(order);
    work.finish();
    optimizer->step();
  }

  GatherCounters counters() const { return context->scheduler().gather_counters(); }
  const TrafficSum& traffic(Traffic kind) const {
    return context->scheduler().traffic().sums()[static_cast<size_t>(kind)];
  }

  std::unique_ptr<Context> context;
  std::vector<Linear> layers;
  std::unique_ptr<Parameters> parameters;
  std::unique_ptr<Optimizer> optimizer;
};

TEST_F(Chain, GathersEveryWeightAtEachUseWithoutACache) {
  make({.switches = {.all_gather = false, .cache = false}});
  step();
  EXPECT_EQ(counters().gathers, 2 * kLayers - 1);  // the first layer's input needs no gradient
  EXPECT_EQ(counters().blocking, counters().gathers);
  EXPECT_EQ(traffic(Traffic::all_gather).collectives, 2 * kLayers - 1);
  EXPECT_EQ(traffic(Traffic::all_gather).bytes, (2 * kLayers - 1) * 16 * 16 * 8);
  EXPECT_EQ(traffic(Traffic::reduce_scatter).collectives, kLayers);
}

TEST_F(Chain, GathersEveryWeightOnceAStepWithACache) {
  make({.switches = {.all_gather = false}});
  step({0, 1, 2}, 3);
  EXPECT_EQ(counters().gathers, kLayers);
  step({0, 1, 2}, 3);
  EXPECT_EQ(counters().gathers, 2 * kLayers);
  EXPECT_EQ(traffic(Traffic::reduce_scatter).collectives, 3 * kLayers);
}

TEST_F(Chain, KeepsTheCacheWithinItsBudget) {
  make({.switches = {.all_gather = false}, .cache_budget = {.bytes = 2 * 16 * 16 * 8 + 100}});
  step();
  step();
  const int64_t before = counters().gathers;
  step();
  EXPECT_EQ(counters().gathers - before, kLayers + 1 - 1);  // two are kept; the first layer's is used only once
}

TEST_F(Chain, GathersAheadInTheOrderOfTheLastTime) {
  make({.switches = {.cache = false}});
  for (int i = 0; i < 3; ++i) step();
  const GatherCounters before = counters();
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(counters().blocking, before.blocking);
  EXPECT_EQ(counters().useless, before.useless);
  EXPECT_EQ(counters().gathers - before.gathers, 3 * (2 * kLayers - 2));  // backward uses the last weight at once
}

// The gathers of a validation come after the update, whether or not the step before was followed by
// one too.
TEST_F(Chain, GathersNoWeightOfAValidationBeforeTheUpdate) {
  make({.switches = {.cache = false}});
  const auto gathers_of = [&](const std::function<void()>& work) {
    const int64_t before = counters().gathers;
    work();
    return counters().gathers - before;
  };
  const auto validation = [&] { forward_in(Phase::evaluate); };
  for (int i = 0; i < 3; ++i) step(), validation();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(gathers_of([&] { step(), validation(); }), 2 * kLayers - 2 + kLayers);

  // A step without an update, as after an overflow in fp16.
  auto work = context->begin_step();
  micro_batch({0, 1, 2});
  work.finish();
  EXPECT_EQ(traffic(Traffic::all_gather).collectives, 2 * kLayers - 2);
}

TEST_F(Chain, GathersNothingBeyondTheUpdateFromARecomputation) {
  make({.switches = {.cache = false}, .prefetch = 4 * kLayers});
  const auto checkpointed_step = [&] {
    auto work = context->begin_step();
    const at::Tensor sum = forward({0, 1, 2}).sum();
    forward_in(Phase::recompute);
    sum.backward();
    work.finish();
    optimizer->step();
  };
  for (int i = 0; i < 3; ++i) checkpointed_step();
  const GatherCounters before = counters();
  for (int i = 0; i < 3; ++i) checkpointed_step();
  EXPECT_EQ(counters().useless, before.useless);
  EXPECT_EQ(counters().gathers - before.gathers, 3 * kLayers);
}

TEST_F(Chain, FallsBackWhenTheOrderChangesAndLearnsIt) {
  make({.switches = {.cache = false}});
  for (int i = 0; i < 3; ++i) step({0, 1, 2});
  const GatherCounters before = counters();
  step({1, 0, 2});
  EXPECT_GT(counters().blocking, before.blocking);
  EXPECT_GT(counters().useless, before.useless);
  step({1, 0, 2});
  step({1, 0, 2});
  const GatherCounters learned = counters();
  step({1, 0, 2});
  EXPECT_EQ(counters().blocking, learned.blocking);
}

TEST_F(Chain, AllocatesNothingAfterTheSecondStep) {
  for (const OverlapPolicy& policy :
       {OverlapPolicy::all(), OverlapPolicy::none(), OverlapPolicy{.switches = {.cache = false}, .prefetch = 2}}) {
    layers.clear();
    make(policy);
    step({0, 1, 2}, 2);
    step({0, 1, 2}, 2);
    const int64_t buffers = context->scheduler().pool().allocations();
    for (int i = 0; i < 5; ++i) step({0, 1, 2}, 2);
    EXPECT_EQ(context->scheduler().pool().allocations(), buffers) << to_string(policy.switches);
  }
}

TEST_F(Chain, FollowsAnotherPolicyFromTheNextStepOn) {
  make({.switches = {.cache = false}});
  for (int i = 0; i < 3; ++i) step();
  const auto in_one_step = [&](const OverlapPolicy& policy) {
    context->set_overlap(policy);
    const GatherCounters before = counters();
    step();
    return GatherCounters{.gathers = counters().gathers - before.gathers,
                          .blocking = counters().blocking - before.blocking};
  };
  const GatherCounters blocking = in_one_step({.switches = {.all_gather = false, .cache = false}}),
                       kept = in_one_step({.switches = {.all_gather = false}}),
                       two_kept =
                           in_one_step({.switches = {.all_gather = false}, .cache_budget = {.bytes = 2 * 16 * 16 * 8}}),
                       ahead = in_one_step({.switches = {.cache = false}});
  EXPECT_EQ(blocking.gathers, 2 * kLayers - 1);
  EXPECT_EQ(blocking.blocking, 2 * kLayers - 1);
  EXPECT_EQ(kept.gathers, kLayers);
  EXPECT_EQ(two_kept.gathers, kLayers);  // not kept: the first layer, whose weight is used once
  EXPECT_EQ(ahead.blocking, 0);          // the order is still known
  EXPECT_EQ(ahead.gathers, 2 * kLayers - 2);
}

TEST_F(Chain, CutsItsBucketsAnewForAnotherPolicy) {
  make({.bucket_bytes = 1}, {.data = test_environment().ranks()});
  step();
  EXPECT_EQ(traffic(Traffic::data).collectives, kLayers);
  context->set_overlap({.bucket_bytes = 2 * 16 * 16 * 8});
  step();
  EXPECT_EQ(traffic(Traffic::data).collectives, 2);
  EXPECT_EQ(traffic(Traffic::data).bytes, kLayers * 16 * 16 * 8);
}

TEST_F(Chain, RefusesAnotherPolicyInsideAStep) {
  make({});
  auto work = context->begin_step();
  EXPECT_USER_ERROR(context->set_overlap(OverlapPolicy::none()), "between steps");
  micro_batch({0, 1, 2});
  work.finish();
}

TEST_F(Chain, SumsOverDataOnceAStepInBuckets) {
  const GridShape grid{.data = test_environment().ranks()};
  make({.bucket_bytes = 2 * 16 * 16 * 8}, grid);
  step({0, 1, 2}, 3);
  EXPECT_EQ(traffic(Traffic::data).collectives, 2);  // two layers per bucket
  EXPECT_EQ(traffic(Traffic::data).bytes, kLayers * 16 * 16 * 8);
}

// The hook for programs that replace the all-reduce.
TEST_F(Chain, GivesCompleteBucketsToAProgram) {
  const GridShape grid{.data = test_environment().ranks()};
  make({.bucket_bytes = 1}, grid);
  step();
  const at::Tensor expected = parameters->arena().gradients().clone();
  layers.clear();
  make({.bucket_bytes = 1}, grid);
  std::vector<int64_t> begins;
  struct Program : GradientSums {
    Program(Communicators& communicators, std::vector<int64_t>& to) : GradientSums(communicators), begun(to) {}
    Request all_reduce(const GradientBucket& bucket) override {
      begun.push_back(bucket.range.begin);
      EXPECT_EQ(bucket.axes, AxisSet(Axis::data));
      return GradientSums::all_reduce(bucket);
    }
    std::vector<int64_t>& begun;
  };
  context->scheduler().set_gradient_sums(std::make_unique<Program>(context->communicators(), begins));
  step();
  EXPECT_EQ(begins, (std::vector<int64_t>{0, 256, 512}));  // the last layer's gradient is complete first
  EXPECT_TRUE(at::equal(parameters->arena().gradients(), expected));
}

// It updates during backward, so the step cannot be given up any more.
TEST_F(Chain, RunsAnOptimizerInsideTheStep) {
  make({}, {.data = test_environment().ranks()});
  struct Updating : StepOptimizer {
    explicit Updating(Context& network) : context(network) {}
    Request sum_and_update(const GradientBucket& bucket) override {
      EXPECT_TRUE(context.scheduler().in_step());
      buckets.push_back(bucket.range);
      const at::Tensor sums = bucket.arena.gradients().narrow(0, bucket.range.begin, bucket.range.size());
      return context.communicators()[bucket.axes].all_reduce(sums);
    }
    bool updates_with_sums() const override { return true; }
    Context& context;
    std::vector<Range> buckets;
  };
  const auto inside = std::make_shared<Updating>(*context);
  NetworkSchedule& schedule = parameters->schedule();
  schedule.set_step_optimizer(inside);
  EXPECT_FALSE(schedule.whole_gradients());
  context->begin_step().abandon();  // no bucket has been summed
  auto work = context->begin_step();
  EXPECT_USER_ERROR(schedule.set_step_optimizer(nullptr), "between steps");
  micro_batch({0, 1, 2});
  EXPECT_EQ(inside->buckets, (std::vector<Range>{{0, kLayers * 16 * 16}}));
  EXPECT_USER_ERROR(work.abandon(), "has changed weights during backward");
  work.finish();
  schedule.set_step_optimizer(nullptr);
  EXPECT_TRUE(schedule.whole_gradients());
  step();
  EXPECT_EQ(inside->buckets.size(), 1u);
}

TEST_F(Chain, WaitsForWeightsThatAreStillBeingWritten) {
  make({.switches = {.cache = false}});
  step();
  const at::Tensor& weights = parameters->arena().weights();
  weights.fill_(test_environment().rank());
  parameters->schedule().weights_written(context->communicators()[Axis::z].broadcast(weights, 0));
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(parameters->list()[0].gathered()->eq(0).all().item<bool>());
}

// Rank 0 uses the first weight before the others have begun to write the second one.
TEST_F(Chain, AWeightWaitsForItsOwnRangeOnly) {
  make({.switches = {.cache = false}}, {.data = test_environment().ranks()});
  step();
  Communicator& data = context->communicators()[Axis::data];
  const at::Tensor& weights = parameters->arena().weights();
  const std::vector<ArenaSlot>& slots = parameters->arena().slots();
  const auto range_of = [&](size_t i) { return Range{slots[i].offset, slots[i].offset + slots[i].stored}; };
  const auto write = [&](size_t i) -> WrittenRange {
    const Range range = range_of(i);
    return {range, {data.all_reduce(weights.narrow(0, range.begin, range.size()), ReduceOp::min), nullptr}};
  };
  weights.fill_(data.rank() == 0 ? 5 : 1);
  const at::NoGradGuard no_grad;
  at::Tensor token = at::zeros({1});
  if (data.rank() == 0) {
    std::vector<WrittenRange> ranges = {write(0), write(1)};
    const Request second = ranges[1].valid_at.request;
    parameters->schedule().weights_written(std::move(ranges));
    EXPECT_TRUE(parameters->list()[0].gathered()->eq(1).all().item<bool>());
    EXPECT_FALSE(second.done());
    for (int peer = 1; peer < data.size(); ++peer) data.send(token, peer, {.priority = Priority::high}).wait();
    EXPECT_TRUE(parameters->list()[1].gathered()->eq(1).all().item<bool>());
    EXPECT_TRUE(second.done());
  } else {
    WrittenRange first = write(0);
    data.receive(token, 0, {.priority = Priority::high}).wait();
    parameters->schedule().weights_written({write(1), std::move(first)});
    parameters->schedule().wait_for_weights();
    EXPECT_TRUE(weights.narrow(0, range_of(0).begin, range_of(0).size()).eq(1).all().item<bool>());
    EXPECT_TRUE(weights.narrow(0, range_of(1).begin, range_of(1).size()).eq(1).all().item<bool>());
  }
}

}  // namespace
}  // namespace axonn
