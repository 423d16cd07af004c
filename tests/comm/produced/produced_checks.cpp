#include "comm/produced/produced_checks.hpp"

#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "axonn/comm/production.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/philox.hpp"

namespace axonn {
namespace {

constexpr std::array<int64_t, 6> kSizes = {0, 1, 5, 4099, 100'003, 300'000};
// Ranges of a share, in elements: of one size, and of several that fit neither messages nor others.
using Ranges = std::vector<int64_t>;
const std::array<Ranges, 4> kRanges = {Ranges{1}, Ranges{20'000}, Ranges{1'000'000}, Ranges{3001, 40'009, 2999, 9000}};

std::string text(const Ranges& ranges) { return detail::concatenate("ranges from ", ranges.front(), " on"); }

at::Tensor noise(int rank, int64_t elements, at::ScalarType dtype = at::kFloat) {
  at::Tensor exact = at::zeros({elements}, at::kFloat);
  for (int64_t i = 0; i < elements; ++i)
    exact.data_ptr<float>()[i] =
        static_cast<float>(to_normal(philox(1, static_cast<uint64_t>(i), 0, static_cast<uint32_t>(rank))));
  return exact.to(dtype);
}

// A value that is read before it is written makes every sum wrong.
at::Tensor unwritten(const at::Tensor& like) { return at::full_like(like, std::numeric_limits<float>::quiet_NaN()); }

void write_part(const at::Tensor& to, const at::Tensor& from, Range part) {
  const auto bytes = static_cast<size_t>(from.element_size());
  const auto offset = static_cast<size_t>(part.begin) * bytes;
  std::memcpy(static_cast<char*>(to.data_ptr()) + offset, static_cast<const char*>(from.data_ptr()) + offset,
              static_cast<size_t>(part.size()) * bytes);
}

// Waits until the engine has looked at its operations several times.
void let_it_look(Environment& environment, const Request& request) {
  const int64_t before = environment.engine_counters().polls;
  while (environment.world().size() > 1 && !request.done() && environment.engine_counters().polls < before + 3)
    std::this_thread::yield();
}

using Launch = std::function<Request(const at::Tensor& buffer, const Production& production)>;

// The request of a collective whose contributions are written part by part after the call.
Request produced(Environment& environment, const std::shared_ptr<ProducerCounter>& counter, const at::Tensor& values,
                 const at::Tensor& buffer, const Ranges& ranges, const Launch& launch) {
  Production production(counter, {environment.world().group(), values.numel(), values.element_size(), ranges});
  Request request = launch(buffer, production);
  for (int64_t part = 0; part < production.parts().size(); ++part) {
    if (part < 4) let_it_look(environment, request);
    write_part(buffer, values, production.parts()[part]);
    production.release();
  }
  return request;
}

void for_each_buffer(Environment& environment, at::ScalarType dtype,
                     const std::function<void(const at::Tensor& values, const Ranges& ranges)>& check) {
  for (const int64_t elements : kSizes)
    for (const Ranges& ranges : kRanges) check(noise(environment.world().rank(), elements, dtype), ranges);
}

// The counter wraps on the way.
std::shared_ptr<ProducerCounter> new_counter() { return std::make_shared<ProducerCounter>(~uint32_t{0} - 20); }

void an_all_reduce_reads_no_part_before_it_is_written(Environment& environment) {
  Communicator& world = environment.world();
  const auto counter = new_counter();
  for (const auto dtype : {at::kFloat, at::kBFloat16})
    for_each_buffer(environment, dtype, [&](const at::Tensor& values, const Ranges& ranges) {
      const at::Tensor sum = unwritten(values), plain = values.clone();
      produced(environment, counter, values, sum, ranges, [&](const at::Tensor& buffer, const Production& production) {
        return world.all_reduce(buffer, ReduceOp::sum, {.production = &production});
      }).wait();
      world.all_reduce(plain).wait();
      EXPECT_TRUE(sum.equal(plain)) << values.numel() << " in " << text(ranges);
    });
}

void a_fused_collective_reads_no_part_before_it_is_written(Environment& environment) {
  Communicator& world = environment.world();
  const auto counter = new_counter();
  for (const bool in_place : {true, false})
    for_each_buffer(environment, at::kFloat, [&](const at::Tensor& values, const Ranges& ranges) {
      const at::Tensor sum = unwritten(values), result = in_place ? sum : at::empty_like(sum), plain = values.clone();
      const Epilogue negate = [](int64_t, int64_t count, const void* sums, void* results) {
        for (int64_t i = 0; i < count; ++i) static_cast<float*>(results)[i] = -static_cast<const float*>(sums)[i];
      };
      produced(environment, counter, values, sum, ranges, [&](const at::Tensor& buffer, const Production& production) {
        return world.fused({buffer, result, negate}, {.production = &production});
      }).wait();
      world.all_reduce(plain).wait();
      EXPECT_TRUE(result.equal(plain.neg())) << values.numel() << " in " << text(ranges);
    });
}

void a_reduce_scatter_reads_no_part_before_it_is_written(Environment& environment) {
  Communicator& world = environment.world();
  const auto counter = new_counter();
  for (const int64_t each : {0, 3, 40'001}) {
    const at::Tensor values = noise(world.rank(), each * world.size()), buffer = unwritten(values),
                     part = at::empty({each}, at::kFloat), plain = at::empty({each}, at::kFloat);
    produced(environment, counter, values, buffer, {9000, 3000},
             [&](const at::Tensor& input, const Production& production) {
               return world.reduce_scatter(input, part, {}, ReduceOp::sum, {.production = &production});
             })
        .wait();
    world.reduce_scatter(values, plain).wait();
    EXPECT_TRUE(part.equal(plain)) << each;
  }
}

// Two collectives of one queue, and one of another queue that overtakes them.
void several_productions_share_a_counter(Environment& environment) {
  Communicator& world = environment.world();
  const auto counter = new_counter();
  const at::Tensor values = noise(world.rank(), 50'000), plain = values.clone(), other = values.clone();
  const at::Tensor first = unwritten(values), second = unwritten(values);
  const Launch launch = [&](const at::Tensor& buffer, const Production& production) {
    return world.all_reduce(buffer, ReduceOp::sum, {.production = &production});
  };
  const Request one = produced(environment, counter, values, first, {5000}, launch);
  const Request two = produced(environment, counter, values, second, {3000}, launch);
  const Request quick = world.all_reduce(other, ReduceOp::sum, {.priority = Priority::high});
  world.all_reduce(plain).wait();
  quick.wait();
  one.wait();
  two.wait();
  EXPECT_TRUE(first.equal(plain) && second.equal(plain) && other.equal(plain));
}

// The thread would wait for itself.
void waiting_before_all_parts_are_written_is_refused(Environment& environment) {
  Communicator& world = environment.world();
  const at::Tensor data = noise(world.rank(), 1000), plain = data.clone();
  Production production(new_counter(), {world.group(), 1000, 4, 100});
  const Request request = world.all_reduce(data, ReduceOp::sum, {.production = &production});
  try {
    request.wait();
    ADD_FAILURE() << "no error";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("this thread has not written yet"), std::string::npos) << error.what();
  }
  for (int64_t part = 0; part < production.parts().size(); ++part) production.release();
  request.wait();
  world.all_reduce(plain).wait();
  EXPECT_TRUE(data.equal(plain));
}

#define AXONN_CHECK_ENTRY(function) \
  CollectiveCheck { #function, function }

constexpr std::array kChecks = {AXONN_CHECK_ENTRY(an_all_reduce_reads_no_part_before_it_is_written),
                                AXONN_CHECK_ENTRY(a_fused_collective_reads_no_part_before_it_is_written),
                                AXONN_CHECK_ENTRY(a_reduce_scatter_reads_no_part_before_it_is_written),
                                AXONN_CHECK_ENTRY(several_productions_share_a_counter),
                                AXONN_CHECK_ENTRY(waiting_before_all_parts_are_written_is_refused)};

}  // namespace

std::span<const CollectiveCheck> produced_checks() { return kChecks; }

}  // namespace axonn
