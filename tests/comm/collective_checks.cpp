#include "comm/collective_checks.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <gtest/gtest.h>

#include "axonn/core/philox.hpp"

namespace axonn {
namespace {

constexpr std::array kDtypes = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf, at::kLong, at::kInt, at::kByte};
constexpr std::array kOps = {ReduceOp::sum, ReduceOp::max, ReduceOp::min};

// Small whole numbers: every sum over 8 ranks is exact in every dtype.
double value(int rank, int64_t element) { return static_cast<double>((element * 7 + rank * 5) % 13 + rank); }

at::Tensor make(int64_t elements, at::ScalarType dtype, const std::function<double(int64_t)>& of) {
  at::Tensor exact = at::empty({elements}, at::kDouble);
  for (int64_t i = 0; i < elements; ++i) exact.data_ptr<double>()[i] = of(i);
  return exact.to(dtype);
}

at::Tensor contribution(int rank, int64_t elements, at::ScalarType dtype) {
  return make(elements, dtype, [&](int64_t i) { return value(rank, i); });
}

at::Tensor reduced(int ranks, int64_t elements, at::ScalarType dtype, ReduceOp op) {
  return make(elements, dtype, [&](int64_t i) {
    double result = value(0, i);
    for (int rank = 1; rank < ranks; ++rank) {
      const double other = value(rank, i);
      result = op == ReduceOp::sum   ? result + other
               : op == ReduceOp::max ? std::max(result, other)
                                     : std::min(result, other);
    }
    return result;
  });
}

std::vector<int64_t> sizes(int ranks) { return {0, 1, ranks - 1, ranks + 1, 1000, 16384 + 3, 70001}; }

// Parts of different sizes, some of them empty.
std::vector<int64_t> uneven(int ranks, int64_t scale) {
  std::vector<int64_t> counts;
  for (int rank = 0; rank < ranks; ++rank) counts.push_back(rank % 3 == 1 ? 0 : scale * (rank + 1) + rank);
  return counts;
}

int64_t sum(const std::vector<int64_t>& counts, int end) {
  return std::accumulate(counts.begin(), counts.begin() + end, int64_t{0});
}

void all_reduce_of_every_dtype_and_op(Environment& environment) {
  Communicator& world = environment.world();
  for (const auto dtype : kDtypes)
    for (const auto op : kOps)
      for (const int64_t elements : sizes(world.size())) {
        at::Tensor data = contribution(world.rank(), elements, dtype);
        world.all_reduce(data, op).wait();
        EXPECT_TRUE(data.equal(reduced(world.size(), elements, dtype, op)))
            << c10::toString(dtype) << " x " << elements;
      }
}

void all_reduce_at_any_arena_offset(Environment& environment) {
  Communicator& world = environment.world();
  for (const int64_t offset : {int64_t{0}, int64_t{1}, int64_t{4095}, int64_t{4096}, int64_t{123457}})
    for (const int64_t elements : sizes(world.size())) {
      at::Tensor data = contribution(world.rank(), elements, at::kFloat);
      world.all_reduce(data, ReduceOp::sum, {.arena_offset = offset}).wait();
      EXPECT_TRUE(data.equal(reduced(world.size(), elements, at::kFloat, ReduceOp::sum)))
          << elements << " at " << offset;
    }
}

void reduce_scatter_of_equal_parts(Environment& environment) {
  Communicator& world = environment.world();
  for (const auto dtype : kDtypes)
    for (const int64_t part : {0, 1, 5000, 40001}) {
      const at::Tensor input = contribution(world.rank(), part * world.size(), dtype);
      at::Tensor output = at::empty({part}, dtype);
      world.reduce_scatter(input, output).wait();
      const auto expected =
          reduced(world.size(), part * world.size(), dtype, ReduceOp::sum).narrow(0, part * world.rank(), part);
      EXPECT_TRUE(output.equal(expected)) << c10::toString(dtype) << " x " << part;
    }
}

void reduce_scatter_of_uneven_parts_in_place(Environment& environment) {
  Communicator& world = environment.world();
  for (const auto op : kOps)
    for (const int64_t scale : {0, 1, 300, 20000}) {
      const auto counts = uneven(world.size(), scale);
      const int64_t begin = sum(counts, world.rank()), all = sum(counts, world.size());
      const int64_t own = counts[static_cast<size_t>(world.rank())];
      const at::Tensor input = contribution(world.rank(), all, at::kFloat);
      world.reduce_scatter(input, input.narrow(0, begin, own), counts, op).wait();
      EXPECT_TRUE(input.narrow(0, begin, own).equal(reduced(world.size(), all, at::kFloat, op).narrow(0, begin, own)))
          << "scale " << scale;
    }
}

void all_gather_of_equal_and_uneven_parts(Environment& environment) {
  Communicator& world = environment.world();
  for (const auto dtype : kDtypes)
    for (const int64_t scale : {0, 1, 300, 20000})
      for (const bool equal : {true, false}) {
        const auto counts =
            equal ? std::vector<int64_t>(static_cast<size_t>(world.size()), scale) : uneven(world.size(), scale);
        const int64_t begin = sum(counts, world.rank()), all = sum(counts, world.size());
        const at::Tensor expected = contribution(3, all, dtype);
        const at::Tensor input = expected.narrow(0, begin, counts[static_cast<size_t>(world.rank())]).clone();
        at::Tensor output = at::full({all}, 99, dtype);
        world.all_gather(input, output, equal ? std::span<const int64_t>() : counts).wait();
        EXPECT_TRUE(output.equal(expected)) << c10::toString(dtype) << ", scale " << scale;
      }
}

void all_gather_in_place(Environment& environment) {
  Communicator& world = environment.world();
  for (const int64_t part : {3, 50000}) {
    const at::Tensor expected = contribution(1, part * world.size(), at::kFloat);
    at::Tensor output = at::full({part * world.size()}, 99, at::kFloat);
    at::Tensor own = output.narrow(0, part * world.rank(), part);
    own.copy_(expected.narrow(0, part * world.rank(), part));
    world.all_gather(own, output).wait();
    EXPECT_TRUE(output.equal(expected));
  }
}

void broadcast_and_reduce_from_every_root(Environment& environment) {
  Communicator& world = environment.world();
  for (int root = 0; root < world.size(); ++root)
    for (const int64_t elements : sizes(world.size())) {
      at::Tensor data = contribution(world.rank(), elements, at::kBFloat16);
      world.reduce(data, root, ReduceOp::max).wait();
      const bool right =
          world.rank() != root || data.equal(reduced(world.size(), elements, at::kBFloat16, ReduceOp::max));
      EXPECT_TRUE(right) << "reduce " << elements << " to " << root;
      data = contribution(world.rank(), elements, at::kInt);
      world.broadcast(data, root).wait();
      EXPECT_TRUE(data.equal(contribution(root, elements, at::kInt))) << "broadcast " << elements << " from " << root;
    }
}

void messages_between_neighbours(Environment& environment) {
  Communicator& world = environment.world();
  const int next = (world.rank() + 1) % world.size(), previous = (world.rank() + world.size() - 1) % world.size();
  for (const int64_t elements : {0, 1, 5000, 3'000'001}) {
    const at::Tensor outgoing = contribution(world.rank(), elements, at::kFloat);
    at::Tensor incoming = at::empty({elements}, at::kFloat);
    const auto sent = world.send(outgoing, next, {.priority = Priority::high});
    world.receive(incoming, previous, {.priority = Priority::high}).wait();
    sent.wait();
    EXPECT_TRUE(incoming.equal(contribution(previous, elements, at::kFloat))) << elements;
  }
}

// A rank can forward a received message from the same buffer on the same queue, without waiting.
void a_message_relayed_along_the_group(Environment& environment) {
  Communicator& world = environment.world();
  at::Tensor data = contribution(world.rank(), 2'500'000, at::kFloat);
  if (world.rank() > 0) world.receive(data, world.rank() - 1);
  if (world.rank() + 1 < world.size()) world.send(data, world.rank() + 1);
  world.barrier().wait();
  EXPECT_TRUE(data.equal(contribution(0, data.numel(), at::kFloat)));
}

// The order that communicator.hpp promises: owner+1, owner+2, ..., owner, rounded after every hop.
template <typename T>
at::Tensor in_chain_order(const std::vector<at::Tensor>& contributions, const std::function<int(int64_t)>& owner) {
  const int ranks = static_cast<int>(contributions.size());
  at::Tensor result = at::empty_like(contributions[0]);
  for (int64_t i = 0; i < result.numel(); ++i) {
    const auto of = [&](int hop) {
      return contributions[static_cast<size_t>((owner(i) + hop) % ranks)].data_ptr<T>()[i];
    };
    T accumulated = of(1);
    for (int hop = 2; hop <= ranks; ++hop)
      accumulated = static_cast<T>(static_cast<float>(accumulated) + static_cast<float>(of(hop)));
    result.data_ptr<T>()[i] = accumulated;
  }
  return result;
}

at::Tensor noise(int rank, int64_t elements, at::ScalarType dtype) {
  return make(elements, dtype, [&](int64_t i) {
    return to_normal(philox(1, static_cast<uint64_t>(i), 0, static_cast<uint32_t>(rank)));
  });
}

template <typename T>
void expect_chain_order(Communicator& world, at::ScalarType dtype) {
  for (const int64_t elements : {2000, 100'003}) {  // direct, and around the ring
    std::vector<at::Tensor> all;
    for (int rank = 0; rank < world.size(); ++rank) all.push_back(noise(rank, elements, dtype));

    at::Tensor data = all[static_cast<size_t>(world.rank())].clone();
    world.all_reduce(data, ReduceOp::sum, {.arena_offset = 6000}).wait();
    EXPECT_TRUE(data.equal(in_chain_order<T>(all, [&](int64_t i) {
      return static_cast<int>((6000 + i) / 4096 % world.size());
    }))) << elements;

    const int64_t part = elements / world.size();
    at::Tensor output = at::empty({part}, dtype);
    world.reduce_scatter(all[static_cast<size_t>(world.rank())].narrow(0, 0, part * world.size()), output).wait();
    const auto expected = in_chain_order<T>(all, [&](int64_t) { return world.rank(); });
    EXPECT_TRUE(output.equal(expected.narrow(0, part * world.rank(), part))) << elements;
  }
}

void additions_are_in_chain_order(Environment& environment) {
  expect_chain_order<float>(environment.world(), at::kFloat);
  expect_chain_order<c10::BFloat16>(environment.world(), at::kBFloat16);
  expect_chain_order<c10::Half>(environment.world(), at::kHalf);
}

void bits_do_not_depend_on_the_number_of_buckets(Environment& environment) {
  Communicator& world = environment.world();
  constexpr int64_t kArena = 50'000;
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    std::vector<at::Tensor> results;
    for (const int64_t buckets : {1, 2, 7}) {
      at::Tensor arena = noise(world.rank(), kArena, dtype);
      std::vector<Request> requests;
      for (int64_t bucket = 0; bucket < buckets; ++bucket) {
        const int64_t begin = kArena * bucket / buckets, end = kArena * (bucket + 1) / buckets;
        requests.push_back(
            world.all_reduce(arena.narrow(0, begin, end - begin), ReduceOp::sum, {.arena_offset = begin}));
      }
      for (const Request& request : requests) request.wait();
      results.push_back(arena);
    }
    EXPECT_TRUE(results[1].equal(results[0])) << c10::toString(dtype);
    EXPECT_TRUE(results[2].equal(results[0])) << c10::toString(dtype);
  }
}

void groups_and_priorities_do_not_mix(Environment& environment) {
  Communicator& world = environment.world();
  Group half;  // ranks of the same parity
  for (int rank = world.rank() % 2; rank < world.size(); rank += 2) half.ranks.push_back(rank);
  half.index = world.rank() / 2;
  const auto first = environment.communicator(half, "half"), second = environment.communicator(half, "half");
  for (int round = 0; round < 5; ++round) {
    std::vector<at::Tensor> data;
    std::vector<Request> requests;
    for (Communicator* communicator : {&world, first.get(), second.get()})
      for (const auto priority : {Priority::low, Priority::normal, Priority::high}) {
        data.push_back(at::full({30'000 + round}, static_cast<double>(communicator->rank() + round), at::kInt));
        requests.push_back(communicator->all_reduce(data.back(), ReduceOp::sum, {.priority = priority}));
      }
    for (auto request = requests.rbegin(); request != requests.rend(); ++request) request->wait();
    for (size_t i = 0; i < data.size(); ++i) {
      const int n = i < 3 ? world.size() : half.size();
      EXPECT_TRUE(data[i].equal(at::full_like(data[i], n * (n - 1) / 2 + n * round))) << "request " << i;
    }
  }
}

void a_queue_keeps_its_order(Environment& environment) {
  Communicator& world = environment.world();
  at::Tensor data = at::full({20'000}, 1.0, at::kDouble);
  std::vector<Request> requests;
  for (int i = 0; i < 6; ++i) requests.push_back(world.all_reduce(data));
  requests.back().wait();
  for (const Request& request : requests) EXPECT_TRUE(request.done());
  double expected = 1;
  for (int i = 0; i < 6; ++i) expected *= world.size();
  EXPECT_TRUE(data.equal(at::full_like(data, expected)));
}

void after_orders_two_queues(Environment& environment) {
  Communicator& world = environment.world();
  const int64_t part = 30'000;
  for (int round = 0; round < 10; ++round) {
    const at::Tensor input = contribution(world.rank(), part * world.size(), at::kFloat);
    at::Tensor shard = at::full({part}, -1.0, at::kFloat), whole = at::empty({part * world.size()}, at::kFloat);
    const std::array sum_done = {world.reduce_scatter(input, shard, {}, ReduceOp::sum, {.priority = Priority::low})};
    world.all_gather(shard, whole, {}, {.priority = Priority::high, .after = sum_done}).wait();
    EXPECT_TRUE(whole.equal(reduced(world.size(), part * world.size(), at::kFloat, ReduceOp::sum)));
  }
}

void nothing_is_allocated_in_steady_state(Environment& environment) {
  Communicator& world = environment.world();
  const at::Tensor small = at::full({100}, 1.0, at::kFloat), large = at::full({300'000}, 1.0, at::kFloat);
  at::Tensor shard = at::full({300'000 / world.size()}, 1.0, at::kFloat);
  const at::Tensor parts = large.narrow(0, 0, shard.numel() * world.size());
  const auto step = [&] {
    const auto first = world.all_reduce(large, ReduceOp::max,
                                        {.tag = "a tag that is too long for a short string", .arena_offset = 5000});
    world.all_reduce(small, ReduceOp::max, {.priority = Priority::high}).wait();
    world.reduce_scatter(parts, shard, {}, ReduceOp::max).wait();
    world.all_gather(shard, parts).wait();
    first.wait();
    world.barrier().wait();
  };
  for (int i = 0; i < 5; ++i) step();
  const auto before = environment.engine_counters().allocations;
  for (int i = 0; i < 20; ++i) step();
  EXPECT_EQ(environment.engine_counters().allocations, before);
  EXPECT_GT(before, 0);
}

// Whoever keeps the request of a finished collective keeps only a small object.
void a_kept_request_holds_no_staging_memory(Environment& environment) {
  constexpr int kRequests = 50;
  Communicator& world = environment.world();
  const at::Tensor large = at::full({100'000}, 1.0, at::kFloat), small = at::full({1000}, 1.0, at::kFloat);
  const auto allocations_of = [&](int requests) {
    const auto before = environment.engine_counters().allocations;
    std::vector<Request> kept;
    for (int i = 0; i < requests; ++i)
      for (const at::Tensor& data : {large, small}) {
        kept.push_back(world.all_reduce(data, ReduceOp::max, {.arena_offset = 5000}));
        kept.back().wait();
      }
    return environment.engine_counters().allocations - before;
  };
  allocations_of(2);
  EXPECT_LT(allocations_of(kRequests), kRequests);
}

void counters_count_bytes_and_collectives(Environment& environment) {
  Communicator& world = environment.world();
  const auto before = world.counters();
  at::Tensor data = at::full({1'000'000}, 1.0, at::kFloat);
  world.all_reduce(data).wait();
  const auto after = world.counters();
  EXPECT_EQ(after.collectives - before.collectives, 1);
  // A ring sends 2 (n-1)/n of the buffer; the parts are whole numbers of elements.
  const double expected = 2.0 * (world.size() - 1) / world.size() * 4e6;
  EXPECT_NEAR(static_cast<double>(after.bytes_sent - before.bytes_sent), expected, 64.0);
}

#define AXONN_CHECK_ENTRY(function) \
  CollectiveCheck { #function, function }

constexpr std::array kChecks = {AXONN_CHECK_ENTRY(all_reduce_of_every_dtype_and_op),
                                AXONN_CHECK_ENTRY(all_reduce_at_any_arena_offset),
                                AXONN_CHECK_ENTRY(reduce_scatter_of_equal_parts),
                                AXONN_CHECK_ENTRY(reduce_scatter_of_uneven_parts_in_place),
                                AXONN_CHECK_ENTRY(all_gather_of_equal_and_uneven_parts),
                                AXONN_CHECK_ENTRY(all_gather_in_place),
                                AXONN_CHECK_ENTRY(broadcast_and_reduce_from_every_root),
                                AXONN_CHECK_ENTRY(messages_between_neighbours),
                                AXONN_CHECK_ENTRY(a_message_relayed_along_the_group),
                                AXONN_CHECK_ENTRY(additions_are_in_chain_order),
                                AXONN_CHECK_ENTRY(bits_do_not_depend_on_the_number_of_buckets),
                                AXONN_CHECK_ENTRY(groups_and_priorities_do_not_mix),
                                AXONN_CHECK_ENTRY(a_queue_keeps_its_order),
                                AXONN_CHECK_ENTRY(after_orders_two_queues),
                                AXONN_CHECK_ENTRY(nothing_is_allocated_in_steady_state),
                                AXONN_CHECK_ENTRY(a_kept_request_holds_no_staging_memory),
                                AXONN_CHECK_ENTRY(counters_count_bytes_and_collectives)};

}  // namespace

std::span<const CollectiveCheck> collective_checks() { return kChecks; }

}  // namespace axonn
