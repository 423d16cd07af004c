#include "axonn/optim/spike_guard.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

SpikeGuard after_good_steps(SpikeOptions options, int count) {
  SpikeGuard guard(options);
  for (int i = 0; i < count; ++i) guard.accept(2 + 0.1 * (i % 3), 1);
  return guard;
}

TEST(SpikeGuard, MoreThanAFactorOfTheMedianIsASpike) {
  const SpikeGuard guard = after_good_steps({.action = OnSpike::skip, .factor = 3, .window = 9}, 9);
  EXPECT_FALSE(guard.is_spike(6.3, 3));  // medians 2.1 and 1
  EXPECT_TRUE(guard.is_spike(6.31, 1));
  EXPECT_TRUE(guard.is_spike(2, 3.01));
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_TRUE(guard.is_spike(bad, 1));
    EXPECT_TRUE(guard.is_spike(2, bad));
  }
  EXPECT_EQ(guard.compared(9, 1.5), "loss 9 (median 2.1), gradient norm 1.5 (median 1)");
}

TEST(SpikeGuard, NothingIsASpikeBeforeTheWindowIsFullOrWhenItIsOff) {
  EXPECT_FALSE(after_good_steps({.action = OnSpike::skip, .window = 9}, 8).is_spike(1e9, std::nan("")));
  const SpikeGuard off = after_good_steps({.window = 9}, 20);
  EXPECT_FALSE(off.is_spike(1e9, 1e9));
  EXPECT_FALSE(off.matters());
  EXPECT_EQ(off.state(), SpikeGuard::State());
}

TEST(SpikeGuard, OldStepsLeaveTheWindowAndSpikesDoNotEnterIt) {
  SpikeGuard guard = after_good_steps({.action = OnSpike::skip, .factor = 4, .window = 5}, 5);
  EXPECT_TRUE(guard.skip());
  EXPECT_TRUE(guard.is_spike(10, 1));
  for (int i = 0; i < 5; ++i) guard.accept(8, 1);
  EXPECT_FALSE(guard.is_spike(10, 1));
  EXPECT_EQ(guard.state().losses, std::vector<double>(5, 8));
  EXPECT_EQ(guard.state().skipped, 1);
}

TEST(SpikeGuard, TooManyInARowAreRefused) {
  SpikeGuard guard = after_good_steps({.action = OnSpike::skip, .window = 2}, 2);
  for (int64_t i = 0; i < SpikeGuard::kMostInARow; ++i) EXPECT_TRUE(guard.skip());
  EXPECT_FALSE(guard.skip());
  guard.accept(2, 1);
  EXPECT_TRUE(guard.skip());
  EXPECT_EQ(guard.state().spikes, SpikeGuard::kMostInARow + 1);
}

TEST(SpikeGuard, RollbackGoesOnBehindTheSpike) {
  SpikeGuard guard = after_good_steps({.action = OnSpike::rollback, .window = 3}, 3);
  const SpikeGuard::State saved = guard.state();  // after step 3
  guard.accept(2, 1);
  guard.roll_back(saved, 3, 5);  // the spike was batch 4, of the fifth step
  EXPECT_EQ(guard.state().losses, saved.losses);
  EXPECT_EQ(guard.state().left_out, 2);
  EXPECT_EQ(guard.state().spikes, 1);
  EXPECT_EQ(guard.state().skipped, 0);
  EXPECT_TRUE(guard.matters());
}

TEST(SpikeGuard, WrongOptionsAreUserErrors) {
  EXPECT_THROW(SpikeGuard({.factor = 1}), UserError);
  EXPECT_THROW(SpikeGuard({.factor = std::nan("")}), UserError);
  EXPECT_THROW(SpikeGuard({.window = 1}), UserError);
}

}  // namespace
}  // namespace axonn
