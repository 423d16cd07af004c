#include "comm/watch/wait_probe.hpp"

#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "axonn/comm/environment.hpp"
#include "axonn/core/error.hpp"
#include "comm/watch/hang_letter.hpp"
#include "comm/watch/misuses.hpp"

namespace axonn {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Ranks as threads of this process, on one of the two paths between them.
struct Job {
  std::string name;
  int ranks = 2;
  std::function<void(Environment&)> body;
};

// All at once, since they mostly wait. Returns the error that ended each, null if it went well.
std::vector<std::exception_ptr> side_by_side(const std::vector<Job>& jobs, const std::string& path) {
  setenv("AXONN_SHARED_MEMORY", path == "shared" ? "1" : "0", 1);
  std::vector<std::future<void>> running;
  for (const Job& job : jobs)
    running.push_back(std::async(std::launch::async, [&job] { run_local(job.ranks, job.body); }));
  std::vector<std::exception_ptr> ended(jobs.size());
  for (size_t i = 0; i < jobs.size(); ++i) try {
      running[i].get();
    } catch (...) {
      ended[i] = std::current_exception();
    }
  return ended;
}

class WaitsOf : public testing::TestWithParam<std::string> {};

TEST_P(WaitsOf, MisusesEndAtOnceWithBothCalls) {
  std::vector<Job> jobs;
  for (const Misuse& misuse : misuses())
    jobs.push_back({misuse.name, misuse.ranks, [&misuse](Environment& environment) {
                      environment.world().barrier().wait();
                      misuse.run(environment);
                    }});
  const auto ended = side_by_side(jobs, GetParam());
  for (size_t i = 0; i < jobs.size(); ++i) {
    SCOPED_TRACE(jobs[i].name);
    if (ended[i] == nullptr) {
      ADD_FAILURE() << "no error";
      continue;
    }
    try {
      std::rethrow_exception(ended[i]);
    } catch (const BackendError& error) {
      for (const std::string& text : misuses()[i].texts)
        EXPECT_NE(error.sentence().find(text), std::string::npos) << text << " in: " << error.sentence();
      EXPECT_NE(error.sentence().find("every rank of a group makes the same calls"), std::string::npos);
      EXPECT_EQ(error.sentence().find("made no progress for"), std::string::npos);  // the time-out's, after 600 s
    }
  }
}

constexpr auto kLong = 3s;  // several probes

void sum(Communicator& ranks) {
  const at::Tensor one = at::ones({1000}, at::kFloat);
  ranks.all_reduce(one).wait();
  EXPECT_EQ(one[7].item<float>(), static_cast<float>(ranks.size()));
}

std::unique_ptr<Communicator> pair_of(Environment& environment, int a, int b) {
  return environment.communicator({.axes = {}, .ranks = {a, b}, .index = environment.rank() == a ? 0 : 1}, "pair");
}

// Rank 0 writes a file. Rank 1 waits for it, and rank 2 for rank 1.
void ranks_that_wait_for_a_busy_one_go_on(Environment& environment) {
  const int rank = environment.rank();
  const auto first = rank == 2 ? nullptr : pair_of(environment, 0, 1);
  const auto second = rank == 0 ? nullptr : pair_of(environment, 1, 2);
  if (rank == 0) std::this_thread::sleep_for(kLong);
  if (first) sum(*first);
  if (second) sum(*second);
  if (rank == 0) std::this_thread::sleep_for(1s);
  sum(environment.world());
}

// It would be a circle if both waits of rank 1 were its program's.
void a_wait_of_another_thread_is_no_proof(Environment& environment) {
  const auto save = pair_of(environment, 0, 1), train = pair_of(environment, 0, 1);
  if (environment.rank() == 0) {
    sum(*train);
    sum(*save);
  } else {
    std::thread saver([&] { sum(*save); });
    std::this_thread::sleep_for(kLong);
    sum(*train);
    saver.join();
  }
}

// Rank 1's program waits in one call while another thread of it, a little later, makes the other.
void a_call_of_another_thread_breaks_the_circle(Environment& environment) {
  const auto save = pair_of(environment, 0, 1), train = pair_of(environment, 0, 1);
  if (environment.rank() == 0) {
    sum(*save);
    sum(*save);
    sum(*train);
  } else {
    std::thread saver([&] {
      sum(*save);
      std::this_thread::sleep_for(kLong);
      sum(*save);
    });
    std::this_thread::sleep_for(200ms);  // the saver has called
    sum(*train);
    saver.join();
  }
}

// Two ranks that wait in one call, while a third is late, are no circle: each waits for the other.
void a_late_rank_is_no_circle(Environment& environment) {
  for (int late = 0; late < 2; ++late) {
    if (environment.rank() == late) std::this_thread::sleep_for(kLong);
    sum(environment.world());
  }
}

// The first messages of a large sum are on their way, and the producer is slow.
void a_rank_that_ends_last_is_waited_for(Environment& environment) {
  sum(environment.world());
  if (environment.rank() == 1) std::this_thread::sleep_for(kLong);
}

TEST_P(WaitsOf, HealthyRanksGoOn) {
  const std::vector<Job> jobs = {
      {"ranks that wait for a busy one go on", 3, ranks_that_wait_for_a_busy_one_go_on},
      {"a wait of another thread is no proof", 2, a_wait_of_another_thread_is_no_proof},
      {"a call of another thread breaks the circle", 2, a_call_of_another_thread_breaks_the_circle},
      {"a late rank is no circle", 4, a_late_rank_is_no_circle},
      {"a rank that ends last is waited for", 2, a_rank_that_ends_last_is_waited_for}};
  const auto ended = side_by_side(jobs, GetParam());
  for (size_t i = 0; i < jobs.size(); ++i) {
    SCOPED_TRACE(jobs[i].name);
    EXPECT_NO_THROW(if (ended[i] != nullptr) std::rethrow_exception(ended[i]));
  }
}

INSTANTIATE_TEST_SUITE_P(, WaitsOf, testing::Values("shared", "messages"), [](const auto& test) { return test.param; });

TEST(ProbeClock, ProbesBecomeRare) {
  ProbeClock clock;
  const auto begin = Clock::now();
  int sent = 0;
  for (auto now = begin; now < begin + 600s; now += 20ms) sent += clock.due(now, begin, 3) ? 1 : 0;
  EXPECT_EQ(sent, 11);  // 0.5 s, 1 s, ... 512 s
  EXPECT_FALSE(clock.due(begin + 600s, begin, 4));
  EXPECT_TRUE(clock.due(begin + 601s, begin, 4));
  EXPECT_FALSE(clock.due(begin + 602s, begin + 602s, 4));
}

WaitProbe two_links() {
  return {
      .path = {{.rank = 0,
                .call = {.channel = 4, .order = 7, .signature = ~uint64_t{0}, .text = "a", .earlier = {{6, 5, "b"}}}},
               {.rank = 2,
                .call = {.channel = 8, .order = 1, .peer = 2, .sends = true, .needed = true, .needs_all = true}}},
      .passed_on = {1, 3},
      .program_waits = true};
}

TEST(WaitProbe, IsTheSameAfterTheWire) {
  const HangLetter letter{.kind = HangLetter::Kind::probe, .states = {}, .verdict = {}, .probe = two_links()};
  const HangLetter after = HangLetter::read(letter.bytes(), 3, 4);
  EXPECT_EQ(after.bytes(), letter.bytes());
  EXPECT_EQ(after.probe.path.front().call.signature, ~uint64_t{0});
  EXPECT_TRUE(after.probe.path.back().call.needs_all);
}

TEST(WaitProbe, ThatNamesOtherRanksIsNotRead) {
  const HangLetter letter{.kind = HangLetter::Kind::probe, .states = {}, .verdict = {}, .probe = two_links()};
  EXPECT_THROW(HangLetter::read(letter.bytes(), 0, 3), BackendError);
  WaitProbe nobody = two_links();
  nobody.path.clear();
  const HangLetter empty{.kind = HangLetter::Kind::probe, .states = {}, .verdict = {}, .probe = nobody};
  EXPECT_THROW(HangLetter::read(empty.bytes(), 0, 4), BackendError);
}

}  // namespace
}  // namespace axonn
