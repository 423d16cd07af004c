#include "axonn/optim/loss_scale.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

TEST(LossScale, HalvesAfterAnOverflowAndDoublesAfterARowOfGoodSteps) {
  LossScale scale({.initial = 1024, .interval = 3, .most_skips = 5});
  scale.applied();
  scale.applied();
  EXPECT_TRUE(scale.skipped());
  EXPECT_EQ(scale.value(), 512);
  scale.applied();
  scale.applied();
  EXPECT_EQ(scale.value(), 512);
  scale.applied();
  EXPECT_EQ(scale.value(), 1024);
  EXPECT_EQ(scale.state().skipped, 1);
}

TEST(LossScale, RefusesMoreSkipsInARowThanAllowedAndChangesNothing) {
  LossScale scale({.initial = 8, .interval = 100, .most_skips = 2});
  EXPECT_TRUE(scale.skipped());
  EXPECT_TRUE(scale.skipped());
  EXPECT_FALSE(scale.skipped());
  EXPECT_EQ(scale.value(), 2);
  EXPECT_EQ(scale.state().skipped, 2);
  scale.applied();
  EXPECT_TRUE(scale.skipped());
}

TEST(LossScale, RefusesWhatScalesNothing) {
  for (const double initial :
       {0.0, -1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    EXPECT_THROW(LossScale({.initial = initial}), UserError) << initial;
  EXPECT_THROW(LossScale({.interval = 0}), UserError);
  EXPECT_THROW(LossScale({.most_skips = 0}), UserError);
}

}  // namespace
}  // namespace axonn
