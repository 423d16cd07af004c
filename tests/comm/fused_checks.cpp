#include "comm/fused_checks.hpp"

#include <array>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "axonn/grid/block_owners.hpp"
#include "axonn/core/philox.hpp"

namespace axonn {
namespace {

constexpr std::array<int64_t, 7> kSizes = {0, 1, 3, 4095, 4096, 4097, 100'003};
constexpr std::array<int64_t, 4> kOffsets = {0, 1, 6000, 123'457};

at::Tensor noise(int rank, int64_t elements, at::ScalarType dtype) {
  at::Tensor exact = at::zeros({elements}, at::kFloat);
  for (int64_t i = 0; i < elements; ++i)
    exact.data_ptr<float>()[i] =
        static_cast<float>(to_normal(philox(1, static_cast<uint64_t>(i), 0, static_cast<uint32_t>(rank))));
  return exact.to(dtype);
}

void for_each_buffer(Communicator& world, at::ScalarType dtype,
                     const std::function<void(const at::Tensor& data, int64_t offset)>& check) {
  for (const int64_t elements : kSizes) {
    const at::Tensor data = noise(world.rank(), elements, dtype);
    for (const int64_t offset : kOffsets) check(data.clone(), offset);
  }
}

at::Tensor all_reduced(Communicator& world, const at::Tensor& data, int64_t offset) {
  const at::Tensor sum = data.clone();
  world.all_reduce(sum, ReduceOp::sum, {.arena_offset = offset}).wait();
  return sum;
}

// The places in the buffer of this rank's own elements.
std::vector<Range> own_ranges(Communicator& world, const at::Tensor& data, int64_t offset) {
  auto ranges = BlockOwners(world.size()).ranges(world.rank(), {offset, offset + data.numel()});
  for (Range& range : ranges) range = {range.begin - offset, range.end - offset};
  return ranges;
}

bool equal_at_own_elements(Communicator& world, const at::Tensor& a, const at::Tensor& b, int64_t offset) {
  bool equal = true;
  for (const Range& range : own_ranges(world, a, offset))
    equal &= a.narrow(0, range.begin, range.size()).equal(b.narrow(0, range.begin, range.size()));
  return equal;
}

template <typename From, typename To>
Epilogue converting() {
  return [](int64_t, int64_t count, const void* sum, void* result) {
    const auto* from = static_cast<const From*>(sum);
    auto* to = static_cast<To*>(result);
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(from[i]);
  };
}

template <typename Contribution, typename Result>
void expect_converted(Communicator& world) {
  constexpr auto kFrom = c10::CppTypeToScalarType<Contribution>::value, kTo = c10::CppTypeToScalarType<Result>::value;
  for_each_buffer(world, kFrom, [&](const at::Tensor& data, int64_t offset) {
    const at::Tensor before = data.clone(), results = at::full({data.numel()}, 99, kTo);
    world.fused({data, results, converting<Contribution, Result>()}, {.arena_offset = offset}).wait();
    EXPECT_TRUE(results.equal(all_reduced(world, data, offset).to(kTo))) << data.numel() << " at " << offset;
    EXPECT_TRUE(data.equal(before)) << "contributions were written";
  });
}

void a_fused_collective_has_the_bits_of_an_all_reduce(Environment& environment) {
  expect_converted<float, float>(environment.world());
  expect_converted<c10::BFloat16, c10::BFloat16>(environment.world());
}

void results_may_be_narrower_or_wider_than_contributions(Environment& environment) {
  expect_converted<float, c10::BFloat16>(environment.world());
  expect_converted<c10::BFloat16, float>(environment.world());
  expect_converted<float, double>(environment.world());
}

void a_fused_collective_in_place(Environment& environment) {
  Communicator& world = environment.world();
  for_each_buffer(world, at::kFloat, [&](const at::Tensor& data, int64_t offset) {
    const at::Tensor expected = all_reduced(world, data, offset);
    world.fused({data, data, converting<float, float>()}, {.arena_offset = offset}).wait();
    EXPECT_TRUE(data.equal(expected)) << data.numel() << " at " << offset;
  });
}

// Also tells in which pieces: of one block of the arena, with one call at a time.
void an_epilogue_meets_every_element_once_at_its_owner(Environment& environment) {
  Communicator& world = environment.world();
  const BlockOwners owners(world.size());
  for_each_buffer(world, at::kFloat, [&](const at::Tensor& data, int64_t offset) {
    for (const bool gathers : {true, false}) {
      const at::Tensor calls = at::zeros({data.numel()}, at::kInt), results = at::full_like(data, 99);
      const Epilogue count_calls = [&, plain = calls.data_ptr<int>()](int64_t place, int64_t count, const void*,
                                                                      void* result) {
        EXPECT_EQ(result != nullptr, gathers);
        const int64_t first = offset + place, last = first + count - 1;
        EXPECT_EQ(first / BlockOwners::kBlock, last / BlockOwners::kBlock);
        EXPECT_EQ(owners.owner(first), world.rank());
        for (int64_t i = place; i < place + count; ++i) ++plain[i];
      };
      world.fused({data, gathers ? results : at::Tensor(), count_calls}, {.arena_offset = offset}).wait();
      world.all_reduce(calls).wait();
      EXPECT_TRUE(calls.equal(at::ones_like(calls))) << data.numel() << " at " << offset;
    }
  });
}

void an_epilogue_without_results_computes_on_the_sums(Environment& environment) {
  Communicator& world = environment.world();
  for_each_buffer(world, at::kFloat, [&](const at::Tensor& data, int64_t offset) {
    const at::Tensor kept = at::zeros({data.numel()}, at::kDouble);
    const Epilogue keep = [to = kept.data_ptr<double>()](int64_t place, int64_t count, const void* sum, void*) {
      for (int64_t i = 0; i < count; ++i) to[place + i] = 2.0 * static_cast<const float*>(sum)[i];
    };
    world.fused({data, {}, keep}, {.arena_offset = offset}).wait();
    const at::Tensor expected = all_reduced(world, data, offset).to(at::kDouble).mul(2);
    EXPECT_TRUE(equal_at_own_elements(world, kept, expected, offset)) << data.numel() << " at " << offset;
  });
}

void an_epilogue_makes_what_is_gathered(Environment& environment) {
  Communicator& world = environment.world();
  for_each_buffer(world, at::kFloat, [&](const at::Tensor& data, int64_t offset) {
    at::Tensor expected = at::zeros({data.numel()}, at::kLong), results = at::full({data.numel()}, -1, at::kLong);
    for (int64_t i = 0; i < data.numel(); ++i) expected.data_ptr<int64_t>()[i] = 3 * i + offset;
    const Epilogue make = [offset](int64_t place, int64_t count, const void* sum, void* result) {
      EXPECT_EQ(sum, nullptr);
      for (int64_t i = 0; i < count; ++i) static_cast<int64_t*>(result)[i] = 3 * (place + i) + offset;
    };
    world.fused({{}, results, make}, {.arena_offset = offset}).wait();
    EXPECT_TRUE(results.equal(expected)) << data.numel() << " at " << offset;
  });
}

void the_halves_without_an_epilogue_are_an_all_reduce(Environment& environment) {
  Communicator& world = environment.world();
  for_each_buffer(world, at::kFloat, [&](const at::Tensor& data, int64_t offset) {
    const at::Tensor expected = all_reduced(world, data, offset);
    world.fused({.contributions = data}, {.arena_offset = offset}).wait();
    EXPECT_TRUE(equal_at_own_elements(world, data, expected, offset)) << data.numel() << " at " << offset;
    world.fused({.results = data}, {.arena_offset = offset}).wait();
    EXPECT_TRUE(data.equal(expected)) << data.numel() << " at " << offset;
  });
}

void a_maximum_can_be_fused_too(Environment& environment) {
  Communicator& world = environment.world();
  const at::Tensor data = noise(world.rank(), 10'000, at::kFloat), results = at::full_like(data, 99);
  world.fused({data, results, converting<float, float>(), ReduceOp::max}, {.arena_offset = 0}).wait();
  world.all_reduce(data, ReduceOp::max).wait();
  EXPECT_TRUE(results.equal(data));
}

// A number of bytes that is no multiple of a cycle, and one that is.
void a_fused_collective_moves_the_bytes_of_an_all_reduce(Environment& environment) {
  Communicator& world = environment.world();
  int64_t before = world.counters().bytes_sent;
  const auto bytes_of = [&](const Request& request) {
    request.wait();
    const int64_t now = world.counters().bytes_sent;
    return now - std::exchange(before, now);
  };
  for (const int64_t elements : {int64_t{100'003}, 4 * BlockOwners::kBlock * world.size()}) {
    const at::Tensor data = at::full({elements}, 1.0, at::kFloat), narrow = at::full({elements}, 1, at::kBFloat16);
    const CollectiveOptions options{.arena_offset = 0};
    const int64_t all_reduce = bytes_of(world.all_reduce(data, ReduceOp::sum, options));
    EXPECT_EQ(bytes_of(world.fused({data, data, converting<float, float>()}, options)), all_reduce);
    const int64_t reduced = bytes_of(world.fused({.contributions = data}, options)),
                  gathered = bytes_of(world.fused({.results = data}, options));
    EXPECT_EQ(reduced + gathered, all_reduce);
    const int64_t narrowed = bytes_of(world.fused({data, narrow, converting<float, c10::BFloat16>()}, options));
    EXPECT_EQ(narrowed, reduced + gathered / 2);
    const bool whole_cycles = elements % (BlockOwners::kBlock * world.size()) == 0;
    EXPECT_TRUE(!whole_cycles || 4 * narrowed == 3 * all_reduce);
  }
}

// Between two blocks of 8 KiB the engine looks at the other queues.
void a_poll_computes_one_block(Environment& environment) {
  Communicator& world = environment.world();
  if (world.size() == 1) return;  // computes in the call
  const at::Tensor data = at::full({200'000}, 1.0, at::kFloat), results = at::full_like(data, 1.0);
  for (const bool reduces : {true, false}) {
    int64_t last_poll = -1, of_this_poll = 0, all = 0;
    const Epilogue watch = [&](int64_t, int64_t count, const void*, void*) {
      const int64_t poll = environment.engine_counters().polls;
      if (std::exchange(last_poll, poll) != poll) of_this_poll = 0;
      of_this_poll += count;
      all += count;
      EXPECT_LE(of_this_poll, (8 << 10) / 4);
    };
    world.fused({reduces ? data : at::Tensor(), results, watch}, {.arena_offset = 0}).wait();
    EXPECT_EQ(all, BlockOwners(world.size()).count(world.rank(), {0, 200'000}));
  }
}

void fused_collectives_allocate_nothing_in_steady_state(Environment& environment) {
  Communicator& world = environment.world();
  const at::Tensor data = at::full({300'000}, 1.0, at::kFloat), narrow = at::full({300'000}, 1, at::kBFloat16);
  const auto step = [&] {
    const CollectiveOptions options{.arena_offset = 5000};
    world.fused({data, narrow, converting<float, c10::BFloat16>()}, options).wait();
    world.fused({.contributions = data}, options).wait();
    world.fused({.results = data}, options).wait();
    world.barrier().wait();
  };
  for (int i = 0; i < 5; ++i) step();
  const auto before = environment.engine_counters().allocations;
  for (int i = 0; i < 20; ++i) step();
  EXPECT_EQ(environment.engine_counters().allocations, before);
}

// Of every collective that has segments. Some of these sizes are no whole number of elements.
void no_bits_depend_on_the_segment(Environment& environment) {
  Communicator& world = environment.world();
  for_each_buffer(world, at::kFloat, [&](const at::Tensor& data, int64_t offset) {
    const at::Tensor sum = all_reduced(world, data, offset), first = data.clone();
    world.broadcast(first, 0).wait();
    for (const int64_t segment : {kSmallestSegment, int64_t{9001}, int64_t{100'000}, kLargestSegment}) {
      const auto expect = [&](const at::Tensor& got, const at::Tensor& need, const char* what) {
        EXPECT_TRUE(got.equal(need)) << what << " of " << data.numel() << " at " << offset << " in " << segment;
      };
      const CollectiveOptions options{.arena_offset = offset, .segment_bytes = segment};
      const at::Tensor all = data.clone(), rounded = at::full({data.numel()}, 99, at::kBFloat16), parts = data.clone(),
                       root = data.clone();
      world.all_reduce(all, ReduceOp::sum, options).wait();
      expect(all, sum, "all-reduce");
      world.fused({data, rounded, converting<float, c10::BFloat16>()}, options).wait();
      expect(rounded, sum.to(at::kBFloat16), "fused");
      world.fused({.contributions = parts}, options).wait();
      EXPECT_TRUE(equal_at_own_elements(world, parts, sum, offset));
      world.fused({.results = parts}, options).wait();
      expect(parts, sum, "gather");
      world.broadcast(root, 0, {.segment_bytes = segment}).wait();
      expect(root, first, "broadcast");
    }
  });
}

// The things that an epilogue holds are free once its request is done, even if the request is kept.
void a_kept_request_holds_no_epilogue(Environment& environment) {
  Communicator& world = environment.world();
  const at::Tensor data = at::full({10'000}, 1.0, at::kFloat);
  auto held = std::make_shared<int>();
  const std::weak_ptr<int> watched = held;
  const Request request = world.fused({data, {}, [held](int64_t, int64_t, const void*, void*) {}}, {.arena_offset = 0});
  held.reset();
  request.wait();
  EXPECT_TRUE(watched.expired());
}

#define AXONN_CHECK_ENTRY(function) \
  CollectiveCheck { #function, function }

constexpr std::array kChecks = {AXONN_CHECK_ENTRY(a_fused_collective_has_the_bits_of_an_all_reduce),
                                AXONN_CHECK_ENTRY(results_may_be_narrower_or_wider_than_contributions),
                                AXONN_CHECK_ENTRY(a_fused_collective_in_place),
                                AXONN_CHECK_ENTRY(an_epilogue_meets_every_element_once_at_its_owner),
                                AXONN_CHECK_ENTRY(an_epilogue_without_results_computes_on_the_sums),
                                AXONN_CHECK_ENTRY(an_epilogue_makes_what_is_gathered),
                                AXONN_CHECK_ENTRY(the_halves_without_an_epilogue_are_an_all_reduce),
                                AXONN_CHECK_ENTRY(a_maximum_can_be_fused_too),
                                AXONN_CHECK_ENTRY(a_fused_collective_moves_the_bytes_of_an_all_reduce),
                                AXONN_CHECK_ENTRY(a_poll_computes_one_block),
                                AXONN_CHECK_ENTRY(no_bits_depend_on_the_segment),
                                AXONN_CHECK_ENTRY(fused_collectives_allocate_nothing_in_steady_state),
                                AXONN_CHECK_ENTRY(a_kept_request_holds_no_epilogue)};

}  // namespace

std::span<const CollectiveCheck> fused_checks() { return kChecks; }

}  // namespace axonn
