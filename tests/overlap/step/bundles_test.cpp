// Parameters that are gathered and reduced in one message: where they lie, and that values,
// gradients and counts are those of bundles of one.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "axonn/layers/context.hpp"
#include "axonn/layers/parameter.hpp"
#include "axonn/overlap/step/scheduler.hpp"
#include "support/rank_test.hpp"

namespace axonn {
namespace {

struct Given {
  int64_t numel = 0;
  bool decay = false, over_z = true;
  int bundle = -1;
};

// Sizes that Z does and does not divide, and smaller ones than a range.
const std::vector<Given> kGiven = {
    {.numel = 640, .decay = true, .bundle = 0},
    {.numel = 200, .bundle = 0},
    {.numel = 7, .over_z = false, .bundle = 1},
    {.numel = 33, .decay = true, .bundle = 1},
    {.numel = 5, .bundle = 1},
    {.numel = 300, .decay = true},
    {.numel = 1000, .decay = true, .bundle = 2},
    {.numel = 129, .bundle = 2},
    {.numel = 96, .bundle = 0},
    {.numel = 250, .decay = true, .bundle = 3},
};

std::string name_of(size_t i) { return "w" + std::to_string(i); }

ShardSpec spec_of(const Given& given) { return {.dims = {Dim::whole(given.numel)}, .over_z = given.over_z}; }

bool within(Range inner, Range outer) { return outer.begin <= inner.begin && inner.end <= outer.end; }

Range stored(const ArenaSlot& slot) { return {slot.offset, slot.offset + slot.stored}; }

TEST(Bundles, LieTogether) {
  std::vector<Arena::Entry> entries;
  for (size_t i = 0; i < kGiven.size(); ++i)
    entries.push_back({name_of(i), spec_of(kGiven[i]), kGiven[i].decay, kGiven[i].bundle});
  for (int z = 2; z <= 5; ++z) {
    const Grid grid({.z = z});
    for (int rank = 0; rank < z; ++rank) {
      SCOPED_TRACE(testing::Message() << "rank " << rank << " of " << z);
      const Arena arena(entries, grid, rank, {}, at::kCPU, ArenaBuffers::none);
      ASSERT_EQ(arena.bundles().size(), 6u);  // four of numbers, and two of one parameter
      std::vector<Range> all;
      for (const ArenaSlot& slot : arena.slots()) {
        const ArenaBundle& bundle = arena.bundles()[static_cast<size_t>(slot.bundle)];
        EXPECT_EQ(std::ranges::count(bundle.slots, slot.number), 1);
        all.push_back(stored(slot));
        const auto section = std::ranges::find_if(
            arena.sections(), [&](const ArenaSection& one) { return within(stored(slot), one.range); });
        ASSERT_NE(section, arena.sections().end()) << slot.name;
        EXPECT_TRUE(section->decay == slot.decay && section->over_z == slot.spec.over_z) << slot.name;
        EXPECT_TRUE(within(stored(slot), slot.spec.over_z ? arena.over_z() : arena.replicated())) << slot.name;
      }
      std::ranges::sort(all, {}, &Range::begin);
      for (size_t i = 1; i < all.size(); ++i) EXPECT_LE(all[i - 1].end, all[i].begin);
      for (const ArenaBundle& bundle : arena.bundles()) {
        if (bundle.single()) continue;
        int64_t end = bundle.range.begin;
        std::vector<Range> places;
        for (const int index : bundle.slots) {
          const ArenaSlot& slot = arena.slots()[static_cast<size_t>(index)];
          EXPECT_EQ(slot.offset, std::exchange(end, slot.offset + slot.stored)) << slot.name;
          places.push_back({slot.place, slot.place + slot.spec.global_numel()});
        }
        EXPECT_EQ(end, bundle.range.end);
        EXPECT_EQ(bundle.numel(), z * bundle.range.size());
        EXPECT_EQ(bundle.own, (Range{rank * bundle.range.size(), (rank + 1) * bundle.range.size()}));
        for (size_t i = 0; i < places.size(); ++i)
          EXPECT_LE(places[i].end, i + 1 < places.size() ? places[i + 1].begin : bundle.numel());
      }
      // Neighbours share a section: two for bundles of one, and one more for each of three.
      EXPECT_EQ(std::ranges::count(arena.sections(), true, &ArenaSection::over_z), 5);
    }
  }
}

TEST(Bundles, AreNoneWhereNothingIsSharded) {
  const Arena arena({{"a", spec_of(kGiven[0]), true, 0}, {"b", spec_of(kGiven[1]), true, 0}}, Grid({.data = 2}), 0, {},
                    at::kCPU, ArenaBuffers::none);
  EXPECT_EQ(arena.bundles().size(), 2u);
}

class OnRanks : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (test_environment().ranks() == 1) GTEST_SKIP() << "one rank gathers nothing";
  }

  void make(const OverlapPolicy& policy, bool bundled, GridShape grid = {.z = test_environment().ranks()}) {
    parameters.reset();
    context = std::make_unique<Context>(test_environment(), grid, ContextOptions{.overlap = policy});
    std::vector<std::pair<std::string, ShardedParameter>> named;
    for (size_t i = 0; i < kGiven.size(); ++i)
      named.emplace_back(name_of(i), ShardedParameter({.spec = spec_of(kGiven[i]),
                                                       .initial = Initial::normal(1),
                                                       .decay = kGiven[i].decay,
                                                       .bundle = bundled ? kGiven[i].bundle : -1}));
    parameters =
        std::make_unique<Parameters>(std::move(named), context->grid(), context->rank(), context->arena_types(),
                                     at::kCPU, InitialDraw{3, {}}, context->kept_scheduler());
  }

  NetworkSchedule& schedule() const { return parameters->schedule(); }
  const std::vector<ArenaSlot>& slots() const { return parameters->arena().slots(); }
  const TrafficSum& traffic(Traffic kind) const {
    return context->scheduler().traffic().sums()[static_cast<size_t>(kind)];
  }

  // Other numbers for each rank, parameter and backward pass.
  static at::Tensor gradient(size_t i, int pass, int rank = test_environment().rank()) {
    return at::arange(kGiven[i].numel).add_(1 + 7 * rank + 31 * static_cast<int64_t>(i) + 101 * pass).to(at::kFloat);
  }
  // The passes' sum over all ranks, this rank's range.
  at::Tensor expected(size_t i, const std::vector<int>& passes) const {
    at::Tensor sum = at::zeros({kGiven[i].numel});
    for (const int pass : passes)
      for (int rank = 0; rank < test_environment().ranks(); ++rank) sum += gradient(i, pass, rank);
    return sum.narrow(0, slots()[i].range.begin, slots()[i].range.size());
  }
  void backward(int pass, const std::vector<size_t>& without = {}) {
    for (size_t i = kGiven.size(); i-- > 0;)
      if (std::ranges::find(without, i) == without.end()) schedule().reduce_pass(slots()[i], gradient(i, pass));
  }
  // Of the arena's gradients that belong to no parameter.
  bool padding_is_zero() const {
    at::Tensor gradients = parameters->arena().gradients().clone();
    for (const ArenaSlot& slot : slots()) gradients.narrow(0, slot.offset, slot.range.size()).zero_();
    return gradients.count_nonzero().item<int64_t>() == 0;
  }

  std::unique_ptr<Context> context;
  std::unique_ptr<Parameters> parameters;
};

TEST_F(OnRanks, EveryBlockIsThatOfABundleOfOne) {
  std::vector<at::Tensor> alone;
  make({}, /*bundled=*/false);
  for (const ShardedParameter& each : parameters->list()) alone.push_back(each.gathered()->clone());
  for (const OverlapPolicy& policy : {OverlapPolicy(), OverlapPolicy::none()}) {
    make(policy, /*bundled=*/true);
    for (int turn = 0; turn < 3; ++turn)
      for (size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(parameters->list()[i].gathered()->equal(alone[i])) << i;
  }
}

TEST_F(OnRanks, ABundleIsGatheredOnce) {
  make(OverlapPolicy::none(), /*bundled=*/true);
  const ArenaBundle& bundle = parameters->arena().bundles()[0];
  const int64_t before = context->scheduler().gather_counters().gathers;
  const GatheredWeight whole = schedule().gathered(bundle);
  EXPECT_EQ(context->scheduler().gather_counters().gathers, before + 1);
  for (const int index : bundle.slots) {
    const ArenaSlot& slot = slots()[static_cast<size_t>(index)];
    const GatheredWeight block = whole.part(slot.place, slot.block_shape);
    EXPECT_TRUE(block->equal(*parameters->list()[static_cast<size_t>(index)].gathered())) << slot.name;
  }
}

TEST_F(OnRanks, GradientsAreSummedInOneMessage) {
  for (const int micro_batches : {1, 3}) {
    make({}, /*bundled=*/true);
    for (int step = 0; step < 2; ++step) {
      auto open = context->begin_step({.micro_batches = micro_batches});
      std::vector<int> passes;
      for (int pass = 0; pass < micro_batches; ++pass) backward(passes.emplace_back(pass + step));
      open.finish();
      for (size_t i = 0; i < kGiven.size(); ++i)
        EXPECT_TRUE(parameters->list()[i].gradient().equal(expected(i, passes))) << i << " of step " << step;
      EXPECT_TRUE(padding_is_zero());
      EXPECT_EQ(traffic(Traffic::reduce_scatter).collectives,
                5 * micro_batches);  // four bundles with numbers, one without
    }
  }
}

// A pass without some of a bundle's parameters, and one with an undefined gradient.
TEST_F(OnRanks, WhatIsMissingCountsAsZeros) {
  make({}, /*bundled=*/true);
  for (const bool last : {false, true}) {
    auto open = context->begin_step({.micro_batches = 2});
    backward(0, last ? std::vector<size_t>{} : std::vector<size_t>{1, 6});
    backward(1, last ? std::vector<size_t>{1, 6} : std::vector<size_t>{});
    open.finish();
    for (size_t i = 0; i < kGiven.size(); ++i) {
      const bool in_one = i == 1 || i == 6;
      const std::vector<int> passes = !in_one ? std::vector<int>{0, 1}
                                      : last  ? std::vector<int>{0}
                                              : std::vector<int>{1};
      EXPECT_TRUE(parameters->list()[i].gradient().equal(expected(i, passes))) << i << ' ' << last;
    }
    EXPECT_TRUE(padding_is_zero());
  }
  auto open = context->begin_step();
  for (size_t i = 0; i < kGiven.size(); ++i) schedule().reduce_pass(slots()[i], at::Tensor());
  open.finish();
  EXPECT_EQ(parameters->arena().gradients().count_nonzero().item<int64_t>(), 0);
}

TEST_F(OnRanks, EveryPolicyHasTheSameBits) {
  const auto gradients = [&](const OverlapPolicy& policy, const GridShape& grid) {
    make(policy, /*bundled=*/true, grid);
    for (int step = 0; step < 2; ++step) {
      auto open = context->begin_step({.micro_batches = 2});
      for (const int pass : {0, 1}) {
        for (const ShardedParameter& each : parameters->list()) each.gathered();
        for (size_t i = kGiven.size(); i-- > 0;) schedule().reduce_pass(slots()[i], at::sin(gradient(i, pass + step)));
      }
      open.finish();
    }
    return parameters->arena().gradients().clone();
  };
  const int ranks = test_environment().ranks();
  std::vector<GridShape> grids = {{.z = ranks}};
  if (ranks % 2 == 0) grids.push_back({.z = 2, .data = ranks / 2});
  for (const GridShape& grid : grids) {
    const at::Tensor need = gradients(OverlapPolicy::none(), grid);
    for (unsigned bits = 0; bits < kSwitchCombinations<OverlapSwitches>; ++bits) {
      const OverlapPolicy policy{.switches = switches_of<OverlapSwitches>(bits), .bucket_bytes = 1 << 10};
      EXPECT_TRUE(gradients(policy, grid).equal(need)) << grid.to_string() << ' ' << to_string(policy.switches);
    }
  }
}

TEST_F(OnRanks, ASteadyStateAllocatesNothing) {
  make({}, /*bundled=*/true);
  int64_t allocations = 0;
  for (int step = 0; step < 5; ++step) {
    auto open = context->begin_step();
    for (const ArenaBundle& bundle : parameters->arena().bundles()) schedule().gathered(bundle);
    backward(0);
    open.finish();
    if (step > 1) {
      EXPECT_EQ(context->scheduler().pool().allocations(), allocations);
    }
    allocations = context->scheduler().pool().allocations();
    schedule().weights_written();
  }
}

// The bundles of such a step lack their last gradients, or their first.
TEST_F(OnRanks, AnAbandonedStepLeavesNothing) {
  make({}, /*bundled=*/true);
  for (const std::vector<size_t>& without : {std::vector<size_t>{0, 3}, std::vector<size_t>{4, 8}}) {
    auto lost = context->begin_step();
    backward(5, without);
    lost.abandon();
    auto open = context->begin_step();
    backward(0);
    open.finish();
    for (size_t i = 0; i < kGiven.size(); ++i)
      EXPECT_TRUE(parameters->list()[i].gradient().equal(expected(i, {0}))) << i << " without " << without[0];
  }
}

}  // namespace
}  // namespace axonn
