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
}

}  // namespace
}  // namespace axonn
