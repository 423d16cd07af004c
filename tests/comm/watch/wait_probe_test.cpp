#include "comm/watch/wait_probe.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <tuple>

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

void on_threads(int ranks, const std::string& path, const std::function<void(Environment&)>& body) {
  setenv("AXONN_SHARED_MEMORY", path == "shared" ? "1" : "0", 1);
  run_local(ranks, body);
}

std::string name_of(const std::string& text) {
  std::string name = text;
  std::ranges::replace_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

class Misuses : public testing::TestWithParam<std::tuple<Misuse, std::string>> {};

TEST_P(Misuses, EndAtOnceWithBothCalls) {
  const auto& [misuse, path] = GetParam();
  try {
    on_threads(misuse.ranks, path, [&](Environment& environment) {
      environment.world().barrier().wait();
      misuse.run(environment);
    });
    FAIL() << "no error";
  } catch (const BackendError& error) {
    for (const std::string& text : misuse.texts)
      EXPECT_NE(error.sentence().find(text), std::string::npos) << text << " in: " << error.sentence();
    EXPECT_NE(error.sentence().find("every rank of a group makes the same calls"), std::string::npos);
    EXPECT_EQ(error.sentence().find("made no progress for"), std::string::npos);  // the time-out's, after 600 s
  }
}

INSTANTIATE_TEST_SUITE_P(, Misuses,
                         testing::Combine(testing::ValuesIn(misuses()), testing::Values("shared", "messages")),
                         [](const auto& test) {
                           return name_of(std::get<0>(test.param).name) + "_" + std::get<1>(test.param);
                         });

class Healthy : public testing::TestWithParam<std::string> {};

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
TEST_P(Healthy, RanksThatWaitForABusyOneGoOn) {
  on_threads(3, GetParam(), [](Environment& environment) {
    const int rank = environment.rank();
    const auto first = rank == 2 ? nullptr : pair_of(environment, 0, 1);
    const auto second = rank == 0 ? nullptr : pair_of(environment, 1, 2);
    if (rank == 0) std::this_thread::sleep_for(kLong);
    if (first) sum(*first);
    if (second) sum(*second);
    if (rank == 0) std::this_thread::sleep_for(1s);
    sum(environment.world());
  });
}

// It would be a circle if both waits of rank 1 were its program's.
TEST_P(Healthy, AWaitOfAnotherThreadIsNoProof) {
  on_threads(2, GetParam(), [](Environment& environment) {
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
  });
}

// Rank 1's program waits in one call while another thread of it, a little later, makes the other.
TEST_P(Healthy, ACallOfAnotherThreadBreaksTheCircle) {
  on_threads(2, GetParam(), [](Environment& environment) {
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
  });
}

// Two ranks that wait in one call, while a third is late, are no circle: each waits for the other.
TEST_P(Healthy, ALateRankIsNoCircle) {
  on_threads(4, GetParam(), [](Environment& environment) {
    for (int late = 0; late < 2; ++late) {
      if (environment.rank() == late) std::this_thread::sleep_for(kLong / 2);
      sum(environment.world());
    }
  });
}

// The first messages of a large sum are on their way, and the producer is slow.
TEST_P(Healthy, ARankThatEndsLastIsWaitedFor) {
  on_threads(2, GetParam(), [](Environment& environment) {
    sum(environment.world());
    if (environment.rank() == 1) std::this_thread::sleep_for(kLong);
  });
}

INSTANTIATE_TEST_SUITE_P(, Healthy, testing::Values("shared", "messages"), [](const auto& test) { return test.param; });

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
  const HangLetter letter{.kind = HangLetter::Kind::probe, .state = {}, .verdict = {}, .probe = two_links()};
  const HangLetter after = HangLetter::read(letter.bytes(), 3, 4);
  EXPECT_EQ(after.bytes(), letter.bytes());
  EXPECT_EQ(after.probe.path.front().call.signature, ~uint64_t{0});
  EXPECT_TRUE(after.probe.path.back().call.needs_all);
}

TEST(WaitProbe, ThatNamesOtherRanksIsNotRead) {
  const HangLetter letter{.kind = HangLetter::Kind::probe, .state = {}, .verdict = {}, .probe = two_links()};
  EXPECT_THROW(HangLetter::read(letter.bytes(), 0, 3), BackendError);
  WaitProbe nobody = two_links();
  nobody.path.clear();
  const HangLetter empty{.kind = HangLetter::Kind::probe, .state = {}, .verdict = {}, .probe = nobody};
  EXPECT_THROW(HangLetter::read(empty.bytes(), 0, 4), BackendError);
}

}  // namespace
}  // namespace axonn
