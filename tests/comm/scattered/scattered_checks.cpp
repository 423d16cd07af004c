#include "comm/scattered/scattered_checks.hpp"

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "axonn/core/philox.hpp"

namespace axonn {
namespace {

// Buckets that are full and partly full; tensors within one owner's block and over many.
constexpr std::array<int64_t, 9> kSizes = {1, 1024, 1000, 5000, 1, 4096, 3 * 4096 + 17, 70'003, 2048};

at::Tensor noise(int rank, int64_t elements, int64_t seed) {
  at::Tensor values = at::empty({elements}, at::kFloat);
  for (int64_t i = 0; i < elements; ++i)
    values.data_ptr<float>()[i] = static_cast<float>(
        to_normal(philox(static_cast<uint64_t>(seed), static_cast<uint64_t>(i), 0, static_cast<uint32_t>(rank))));
  return values;
}

// Tensors in memory of their own, and one tensor with their elements at the same places.
struct Twins {
  std::shared_ptr<const ScatteredTensors> scattered;
  at::Tensor whole;

  explicit Twins(at::ScalarType dtype, double filled = 99)
      : Twins(dtype, [&](int64_t elements, int64_t) { return at::full({elements}, filled, at::kFloat); }) {}
  template <typename Values>
  Twins(at::ScalarType dtype, const Values& values) {
    std::vector<NamedTensor> tensors;
    for (const int64_t size : kSizes)
      tensors.push_back(
          {"t" + std::to_string(tensors.size()), values(size, static_cast<int64_t>(tensors.size())).to(dtype).clone()});
    scattered = std::make_shared<const ScatteredTensors>(std::move(tensors));
    whole = at::zeros({scattered->size()}, dtype);
    for_each_run([&](Range run) { in_whole(run).copy_(scattered->narrowed(run)); });
  }
  static Twins of_noise(int rank) {
    return {at::kFloat, [rank](int64_t elements, int64_t seed) { return noise(rank, elements, seed); }};
  }

  template <typename Visit>
  void for_each_run(Visit visit) const {
    scattered->for_each_run({0, scattered->size()}, visit);
  }
  at::Tensor in_whole(Range run) const { return whole.narrow(0, run.begin, run.size()); }
  CollectiveBuffer places(Range range) const { return {scattered, range}; }
  at::Tensor narrowed(Range range) const { return whole.narrow(0, range.begin, range.size()); }
  // Every element, or those that this rank owns.
  void expect_equal(const Communicator& world, bool own = false) const {
    const BlockOwners owners(world.size());
    for_each_run([&](Range run) {
      for (const Range& part : own ? owners.ranges(world.rank(), run) : std::vector{run})
        EXPECT_TRUE(scattered->narrowed(part).equal(narrowed(part))) << part.begin << " to " << part.end;
    });
  }
};

Range all_of(const Twins& twins) { return {0, twins.scattered->size()}; }

template <typename To>
Epilogue halving() {
  return [](int64_t, int64_t count, const void* sum, void* result) {
    for (int64_t i = 0; i < count; ++i)
      static_cast<To*>(result)[i] = static_cast<To>(static_cast<const float*>(sum)[i] / 2);
  };
}

// The whole buffer, and parts of it that begin and end in other tensors and in empty places.
template <typename To>
void expect_bits_of_one_tensor(Communicator& world) {
  constexpr auto kTo = c10::CppTypeToScalarType<To>::value;
  const Twins contributions = Twins::of_noise(world.rank());
  const int64_t size = contributions.scattered->size();
  for (const Range range : {Range{0, size}, {0, 4096}, {4096, size - 5000}, {3 * 1024, 3 * 1024}, {2000, 9500}}) {
    const Twins results(kTo);
    const CollectiveOptions options{.arena_offset = range.begin};
    world.fused({contributions.places(range), results.places(range), halving<To>()}, options).wait();
    world.fused({contributions.narrowed(range), results.narrowed(range), halving<To>()}, options).wait();
    results.expect_equal(world);
    contributions.expect_equal(world);
  }
}

void scattered_tensors_have_the_bits_of_one(Environment& environment) {
  expect_bits_of_one_tensor<float>(environment.world());
  expect_bits_of_one_tensor<c10::BFloat16>(environment.world());
}

void scattered_tensors_in_place(Environment& environment) {
  Communicator& world = environment.world();
  const Twins data = Twins::of_noise(world.rank());
  const CollectiveOptions options{.arena_offset = 0};
  world.fused({data.places(all_of(data)), data.places(all_of(data)), halving<float>()}, options).wait();
  world.fused({data.whole, data.whole, halving<float>()}, options).wait();
  data.expect_equal(world);
}

void the_halves_of_scattered_tensors(Environment& environment) {
  Communicator& world = environment.world();
  const Twins data = Twins::of_noise(world.rank());
  const CollectiveOptions options{.arena_offset = 0};
  world.fused({.contributions = data.places(all_of(data))}, options).wait();
  world.fused({.contributions = data.whole}, options).wait();
  data.expect_equal(world, /*own=*/true);
  world.fused({.results = data.places(all_of(data))}, options).wait();
  world.fused({.results = data.whole}, options).wait();
  data.expect_equal(world);
}

// A call lies in one tensor and one block of the owner's, and is cut where sums are cut.
void an_epilogue_meets_every_scattered_element_once(Environment& environment) {
  Communicator& world = environment.world();
  const BlockOwners owners(world.size());
  const Twins data = Twins::of_noise(world.rank());
  const at::Tensor calls = at::zeros({data.scattered->size()}, at::kInt);
  for (const bool gathers : {false, true}) {
    calls.zero_();
    const Twins results(at::kFloat);
    const Epilogue count_calls = [&](int64_t place, int64_t count, const void* sum, void* result) {
      int runs = 0;
      data.scattered->for_each_run({place, place + count}, [&](Range run) { runs += run.size() == count ? 1 : 2; });
      EXPECT_EQ(runs, 1) << place << " and " << count << " more";
      EXPECT_EQ(owners.owner(place), world.rank());
      EXPECT_EQ(place / BlockOwners::kBlock, (place + count - 1) / BlockOwners::kBlock);
      EXPECT_EQ(place % kEpilogueUnit, 0);
      EXPECT_TRUE(sum != nullptr);
      EXPECT_EQ(result, gathers ? results.scattered->address(place) : nullptr);
      calls.narrow(0, place, count).add_(1);
    };
    const CollectiveBuffer to = gathers ? results.places(all_of(data)) : CollectiveBuffer();
    world.fused({data.places(all_of(data)), to, count_calls}, {.arena_offset = 0}).wait();
    world.all_reduce(calls).wait();
    int64_t elements = 0;
    data.for_each_run([&](Range run) {
      EXPECT_TRUE(calls.narrow(0, run.begin, run.size()).eq(1).all().item<bool>());
      elements += run.size();
    });
    EXPECT_EQ(calls.sum().item<int64_t>(), elements);
  }
}

void scattered_tensors_cost_the_messages_of_one(Environment& environment) {
  Communicator& world = environment.world();
  const Twins data = Twins::of_noise(world.rank()), results(at::kBFloat16);
  const CollectiveOptions options{.arena_offset = 0};
  const auto counted = [&](const FusedCollective& collective) {
    const auto before = world.counters();
    world.fused(collective, options).wait();
    const auto now = world.counters();
    return std::array{now.bytes_sent - before.bytes_sent, now.messages - before.messages,
                      now.collectives - before.collectives};
  };
  const Range all = all_of(data);
  EXPECT_EQ(counted({data.places(all), results.places(all), halving<c10::BFloat16>()}),
            counted({data.whole, results.whole, halving<c10::BFloat16>()}));
  EXPECT_EQ(counted({.contributions = data.places(all)}), counted({.contributions = data.whole}));
  EXPECT_EQ(counted({.results = results.places(all)}), counted({.results = results.whole}));
}

void scattered_collectives_allocate_nothing_in_steady_state(Environment& environment) {
  Communicator& world = environment.world();
  const Twins data = Twins::of_noise(world.rank()), results(at::kBFloat16);
  const Range all = all_of(data);
  const auto step = [&] {
    world.fused({data.places(all), results.places(all), halving<c10::BFloat16>()}, {.arena_offset = 0}).wait();
    world.fused({.results = results.places(all)}, {.arena_offset = 0}).wait();
    world.barrier().wait();
  };
  for (int i = 0; i < 5; ++i) step();
  const auto before = environment.engine_counters().allocations;
  for (int i = 0; i < 20; ++i) step();
  EXPECT_EQ(environment.engine_counters().allocations, before);
}

// The tensors live until the request is done, and no longer.
void a_request_holds_its_scattered_tensors(Environment& environment) {
  Communicator& world = environment.world();
  auto data = std::make_unique<Twins>(Twins::of_noise(world.rank()));
  const std::weak_ptr<const ScatteredTensors> watched = data->scattered;
  const Request request =
      world.fused({data->places(all_of(*data)), {}, [](int64_t, int64_t, const void*, void*) {}}, {.arena_offset = 0});
  data.reset();
  request.wait();
  EXPECT_TRUE(watched.expired());
}

#define AXONN_CHECK_ENTRY(function) \
  CollectiveCheck { #function, function }

constexpr std::array kChecks = {AXONN_CHECK_ENTRY(scattered_tensors_have_the_bits_of_one),
                                AXONN_CHECK_ENTRY(scattered_tensors_in_place),
                                AXONN_CHECK_ENTRY(the_halves_of_scattered_tensors),
                                AXONN_CHECK_ENTRY(an_epilogue_meets_every_scattered_element_once),
                                AXONN_CHECK_ENTRY(scattered_tensors_cost_the_messages_of_one),
                                AXONN_CHECK_ENTRY(scattered_collectives_allocate_nothing_in_steady_state),
                                AXONN_CHECK_ENTRY(a_request_holds_its_scattered_tensors)};

}  // namespace

std::span<const CollectiveCheck> scattered_checks() { return kChecks; }

}  // namespace axonn
