#include "axonn/tasks/images/time_history.hpp"

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

namespace axonn {
namespace {

constexpr int64_t kTimes = 4;
constexpr int64_t kDraws = 20000;

// Time t has losses around `level[t]`, after an older one that is forgotten.
TimeHistory filled(const std::vector<double>& level) {
  TimeHistory history(kTimes);
  for (int64_t t = 0; t < kTimes; ++t) {
    history.record(t, 1e6);
    for (int64_t i = 0; i < TimeHistory::kLength; ++i)
      history.record(t, level[static_cast<size_t>(t)] * (i % 2 == 0 ? 0.6 : 0.8));
  }
  return history;
}

TEST(TimeHistory, IsUniformUntilEveryTimeHasItsLosses) {
  TimeHistory history(kTimes);
  const at::Tensor fresh = history.draw(1, 0, 100).times;
  for (int64_t t = 0; t < kTimes; ++t)
    for (int64_t i = 0; i < TimeHistory::kLength - (t == 2 ? 1 : 0); ++i) history.record(t, 1 + static_cast<double>(t));
  history.record(2, std::numeric_limits<double>::quiet_NaN());
  history.record(2, std::numeric_limits<double>::infinity());
  EXPECT_FALSE(history.full());
  EXPECT_FALSE(history.draw(1, 0, 100).weights.defined());
  EXPECT_TRUE(at::equal(history.draw(1, 0, 100).times, fresh));
  history.record(2, 3);
  EXPECT_TRUE(history.full());
  EXPECT_TRUE(history.draw(1, 0, 100).weights.defined());
}

TEST(TimeHistory, DrawsByTheRootOfTheMeanSquareAndWeighsAgainstIt) {
  const std::vector<double> level = {1, 2, 0, 5};
  const auto draw = filled(level).draw(3, 0, kDraws);
  const double sum = std::accumulate(level.begin(), level.end(), 0.0);
  for (int64_t t = 0; t < kTimes; ++t) {
    const double p = 0.999 * level[static_cast<size_t>(t)] / sum + 0.001 / kTimes;
    const at::Tensor here = draw.times == t;
    EXPECT_NEAR(here.sum().item<double>() / kDraws, p, 5 * std::sqrt(p / kDraws)) << "time " << t;
    ASSERT_TRUE(here.any().item<bool>());
    EXPECT_NEAR(draw.weights.masked_select(here).max().item<double>(), 1 / (p * kTimes), 1e-9);
  }
  // Three of the four times.
  EXPECT_NEAR(draw.weights.masked_select(draw.times != 2).sum().item<double>() / kDraws, 0.75, 0.02);
}

TEST(TimeHistory, DrawsBySampleNumberAlone) {
  const TimeHistory history = filled({1, 2, 3, 4});
  const auto all = history.draw(3, 10, 50), some = history.draw(3, 20, 5);
  EXPECT_TRUE(at::equal(all.times.narrow(0, 10, 5), some.times));
  EXPECT_TRUE(at::equal(all.weights.narrow(0, 10, 5), some.weights));
  EXPECT_FALSE(at::equal(history.draw(4, 10, 50).times, all.times));
}

TEST(TimeHistory, GoesOnFromItsState) {
  const TimeHistory from = filled({1, 2, 3, 4});
  TimeHistory to(kTimes);
  to.state().shard.copy_(from.state().shard);
  EXPECT_TRUE(at::equal(to.draw(1, 0, 100).times, from.draw(1, 0, 100).times));
}

TEST(TimeHistory, OfLossesThatAreAllZeroIsUniform) {
  const auto draw = filled({0, 0, 0, 0}).draw(1, 0, 100);
  EXPECT_TRUE(at::equal(draw.weights, at::ones({100}, at::kDouble)));
}

}  // namespace
}  // namespace axonn
