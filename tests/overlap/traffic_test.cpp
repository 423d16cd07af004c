// To which step the log books a collective, and what it keeps of it.
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "axonn/comm/environment.hpp"
#include "axonn/overlap/step/traffic.hpp"

namespace axonn {
namespace {

constexpr int64_t kElements = 1 << 19;

LoggedRequest launch(TrafficLog& log, Communicator& world, const at::Tensor& data, Traffic kind = Traffic::data) {
  return log.launch(kind, Axis::data, static_cast<int64_t>(data.nbytes()), "test", world.all_reduce(data));
}

void on_two_ranks(const std::function<void(Environment&)>& body) {
  setenv("AXONN_SHARED_MEMORY", "0", 1);
  run_local(2, body);
  unsetenv("AXONN_SHARED_MEMORY");
}

at::Tensor ones() { return at::full({kElements}, 1.0, at::kFloat); }

int64_t booked(const TrafficLog& log, Traffic kind) { return log.sums()[static_cast<size_t>(kind)].collectives; }

TEST(TrafficLog, KeepsNothingOfACollectiveThatWasWaitedFor) {
  on_two_ranks([](Environment& environment) {
    const at::Tensor data = ones();
    TrafficLog log;
    const auto allocations_of_step = [&](int collectives) {
      const int64_t before = environment.engine_counters().allocations;
      log.begin_step();
      for (int i = 0; i < collectives; ++i) log.wait(launch(log, environment.world(), data));
      log.end_step();
      EXPECT_EQ(booked(log, Traffic::data), collectives);
      return environment.engine_counters().allocations - before;
    };
    const int64_t of_two = allocations_of_step(2);
    allocations_of_step(20);  // how many messages are under way at once varies
    EXPECT_GT(of_two, 0);
    EXPECT_LE(allocations_of_step(100), of_two);

    log.begin_step();
    LoggedRequest request = launch(log, environment.world(), data);
    const std::weak_ptr<Request::State> operation = request.request.state();
    log.wait(std::exchange(request, {}));
    environment.world().barrier().wait();  // the engine holds it a moment longer
    EXPECT_TRUE(operation.expired());
    log.end_step();
  });
}

TEST(TrafficLog, BooksACollectiveToTheStepThatWaitsForIt) {
  on_two_ranks([](Environment& environment) {
    Communicator& world = environment.world();
    const at::Tensor before = ones(), within = ones(), unwaited = ones();
    TrafficLog log;
    log.begin_step();
    const LoggedRequest first = launch(log, world, within, Traffic::all_gather);
    launch(log, world, unwaited, Traffic::reduce_scatter);  // nobody can wait for it
    log.end_step();
    EXPECT_EQ(booked(log, Traffic::all_gather), 0);
    EXPECT_EQ(booked(log, Traffic::reduce_scatter), 1);
    EXPECT_EQ(log.records()[0].waited, log.records()[0].ended);

    const LoggedRequest second = launch(log, world, before);  // an optimizer's
    log.begin_step();
    log.wait(second);
    log.wait(first);
    log.wait(first);
    log.end_step();
    ASSERT_EQ(log.records().size(), 2U);
    EXPECT_EQ(booked(log, Traffic::all_gather), 1);
    EXPECT_EQ(log.sums()[static_cast<size_t>(Traffic::data)].bytes, static_cast<int64_t>(before.nbytes()));
    for (const RequestRecord& record : log.records()) {
      EXPECT_LT(record.started, record.ended);
      EXPECT_LE(record.wait_began, record.waited);
      EXPECT_LE(record.ended, record.waited);
    }
    world.barrier().wait();
  });
}

TEST(TrafficLog, BooksNothingThatIsWaitedForBetweenSteps) {
  on_two_ranks([](Environment& environment) {
    Communicator& world = environment.world();
    const at::Tensor data = ones();
    TrafficLog log;
    log.wait(launch(log, world, data));  // a validation's
    log.begin_step();
    const LoggedRequest held = launch(log, world, data);
    log.end_step();
    log.wait(held);
    launch(log, world, data);
    log.begin_step();
    log.end_step();
    EXPECT_EQ(log.records().size(), 0U);
    world.barrier().wait();
  });
}

// As for a step that is given up: its holders find it done, and may still wait for it.
TEST(TrafficLog, LandsWhatIsUnderWay) {
  on_two_ranks([](Environment& environment) {
    const at::Tensor data = ones();
    TrafficLog log;
    log.begin_step();
    log.wait(launch(log, environment.world(), data));
    const LoggedRequest held = launch(log, environment.world(), data);
    log.land();
    EXPECT_TRUE(held.request.done());
    log.end_step();
    EXPECT_EQ(log.records().size(), 1U);
    log.begin_step();
    log.wait(held);
    log.end_step();
    EXPECT_EQ(log.records().size(), 1U);
  });
}

}  // namespace
}  // namespace axonn
