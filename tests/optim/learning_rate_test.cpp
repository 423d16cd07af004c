#include "axonn/optim/learning_rate.hpp"

#include <gtest/gtest.h>

namespace axonn {
namespace {

TEST(LearningRate, RisesThenFollowsACosine) {
  const LearningRate rate{.peak = 1, .end = 0.5, .warmup = 4, .steps = 8};
  EXPECT_EQ(rate.at(0), 0.25);
  EXPECT_EQ(rate.at(3), 1);
  EXPECT_EQ(rate.at(4), 1);
  EXPECT_DOUBLE_EQ(rate.at(6), 0.75);
  EXPECT_DOUBLE_EQ(rate.at(8), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(9), 0.5);
}

TEST(LearningRate, FallsInALineOrNotAtAll) {
  LearningRate rate{.peak = 1, .end = 0.5, .warmup = 4, .steps = 8, .schedule = LearningRateSchedule::linear};
  EXPECT_EQ(rate.at(1), 0.5);
  EXPECT_EQ(rate.at(3), 1);
  EXPECT_DOUBLE_EQ(rate.at(4), 0.875);
  EXPECT_DOUBLE_EQ(rate.at(5), 0.75);
  for (const int64_t step : {7, 8, 80}) EXPECT_DOUBLE_EQ(rate.at(step), 0.5) << step;
  rate.schedule = LearningRateSchedule::constant;
  for (const int64_t step : {4, 7, 8, 80}) EXPECT_EQ(rate.at(step), 1);
}

TEST(LearningRate, OfALineWithoutWarmUpBeginsWithThePeak) {
  for (const auto schedule : {LearningRateSchedule::linear, LearningRateSchedule::wsd}) {
    LearningRate rate{.peak = 1, .end = 0, .warmup = 0, .steps = 5, .schedule = schedule, .decay = 1};
    for (const int64_t step : {0, 1, 2, 3, 4}) EXPECT_DOUBLE_EQ(rate.at(step), 1 - static_cast<double>(step) / 4);
    rate.steps = 1;
    EXPECT_EQ(rate.at(0), 1);
    EXPECT_EQ(rate.at(1), 0);
  }
}

TEST(LearningRate, IsStableBeforeItsShareOfTheStepsBegins) {
  LearningRate rate{
      .peak = 1, .end = 0, .warmup = 10, .steps = 100, .schedule = LearningRateSchedule::wsd, .decay = 0.25};
  EXPECT_EQ(rate.at(4), 0.5);
  for (const int64_t step : {9, 10, 50, 74}) EXPECT_EQ(rate.at(step), 1);
  EXPECT_DOUBLE_EQ(rate.at(75), 0.96);
  EXPECT_DOUBLE_EQ(rate.at(79), 0.8);
  for (const int64_t step : {99, 100}) EXPECT_DOUBLE_EQ(rate.at(step), 0);
  rate.decay = 1;  // from the end of the warm-up on
  EXPECT_EQ(rate.at(9), 1);
  EXPECT_DOUBLE_EQ(rate.at(54), 0.5);
  rate.decay = 1e-9;  // the last step
  EXPECT_EQ(rate.at(98), 1);
  EXPECT_EQ(rate.at(99), 0);
}

TEST(LearningRate, IsSaidInWords) {
  const auto words = [](double end, int64_t warmup) {
    return LearningRate{.peak = 3e-4, .end = end, .warmup = warmup, .steps = 1000}.to_string();
  };
  EXPECT_EQ(words(3e-5, 100), "learning rate 0.0003 after 100 steps of warm-up, then a cosine to 3e-05");
  EXPECT_EQ(words(3e-4, 1), "learning rate 0.0003 after 1 step of warm-up");
  EXPECT_EQ(words(0, 0), "learning rate 0.0003, then a cosine to 0");
  EXPECT_EQ(words(3e-4, 0), "learning rate 0.0003");
  EXPECT_EQ(words(3e-5, 1000), "learning rate 0.0003 after 1000 steps of warm-up");
  EXPECT_EQ(words(3e-5, 2000), "learning rate up to 0.00015: the warm-up to 0.0003 takes 2000 steps");
  LearningRate rate{.peak = 3e-4, .end = 0, .warmup = 0, .steps = 1000, .schedule = LearningRateSchedule::linear};
  EXPECT_EQ(rate.to_string(), "learning rate 0.0003, then a line to 0");
  rate.schedule = LearningRateSchedule::wsd;
  EXPECT_EQ(rate.to_string(), "learning rate 0.0003, then a line to 0 over the last 200 steps");
  rate.schedule = LearningRateSchedule::constant;
  EXPECT_EQ(rate.to_string(), "learning rate 0.0003");
}

}  // namespace
}  // namespace axonn
