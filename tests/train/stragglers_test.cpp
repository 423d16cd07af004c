#include "train/report/stragglers.hpp"

#include <mutex>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "axonn/comm/environment.hpp"

namespace axonn {
namespace {

// The words of all ranks after each comparison, where every rank computes this many seconds in each
// of its steps, and waits as many times `waited` as the step's number. The seconds of a step are
// known when the waiting of `ahead` more steps is.
std::vector<std::string> said(const std::vector<double>& seconds, int comparisons, double waited = 0, int ahead = 0) {
  std::vector<std::string> texts;
  std::mutex mutex;
  run_local(static_cast<int>(seconds.size()), [&](Environment& environment) {
    Stragglers stragglers(environment.world());
    const double mine = seconds[static_cast<size_t>(environment.rank())];
    const auto waits_in = [&](int step) { return waited * mine * step; };
    for (int step = 1; step <= ahead; ++step) stragglers.add_waited(waits_in(step));
    for (int step = 1; step <= comparisons * Stragglers::kSteps; ++step) {
      stragglers.add_waited(waits_in(step + ahead));
      const auto slow = stragglers.add_step(mine + waits_in(step));
      EXPECT_TRUE(!slow || step % Stragglers::kSteps == 0);
      const std::lock_guard lock(mutex);
      if (slow) texts.push_back(*slow);
    }
  });
  return texts;
}

TEST(Stragglers, NamesTheSlowestRankOnEveryRankAfterEveryComparison) {
  const auto texts = said({0.1, 0.1, 0.12, 0.1}, 2);
  ASSERT_EQ(texts.size(), 8U);
  EXPECT_EQ(std::set(texts.begin(), texts.end()).size(), 1U);
  EXPECT_TRUE(texts[0].starts_with("rank 2 on host ")) << texts[0];
  EXPECT_NE(texts[0].find(" computes 20% longer than the median of 4 ranks: 0.12 against 0.1 s per step, mean of 100 "
                          "steps"),
            std::string::npos)
      << texts[0];
}

TEST(Stragglers, CountsTheOthers) {
  const auto texts = said({0.1, 0.13, 0.1, 0.1, 0.15}, 1);
  ASSERT_EQ(texts.size(), 5U);
  EXPECT_TRUE(texts[0].starts_with("rank 4 ") && texts[0].ends_with("; 1 other does too")) << texts[0];
}

TEST(Stragglers, ComparesTwoRanksWithEachOther) {
  EXPECT_TRUE(said({0.2, 0.1}, 1).at(0).starts_with("rank 0 on host "));
}

TEST(Stragglers, KnowsTheWaitingOfEachStep) {
  const auto texts = said({0.1, 0.2, 0.1}, 1, 3, 1);
  ASSERT_EQ(texts.size(), 3U);
  EXPECT_NE(texts[0].find("rank 1 on host "), std::string::npos) << texts[0];
  EXPECT_NE(texts[0].find(": 0.2 against 0.1 s per step"), std::string::npos) << texts[0];
}

TEST(Stragglers, SaysNothingOfWhatIsTolerated) {
  EXPECT_TRUE(said({0.1, 0.11, 0.1, 0.105}, 2).empty());
  EXPECT_TRUE(said({0.1}, 1).empty());
  EXPECT_TRUE(said({0.0, 0.0}, 1).empty());
}

}  // namespace
}  // namespace axonn
