#include <cmath>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/layers/parameter.hpp"

namespace axonn {
namespace {

// 300 x 40, rows split over X.
ShardSpec spec() { return {.dims = {Dim::split(300, Axis::x), Dim::whole(40)}, .over_z = true}; }

at::Tensor whole(const std::string& name, const Initial& initial, uint64_t seed = 1) {
  return initial_values(name, initial, spec(), {}, {}, {0, 300 * 40}, seed, at::kDouble);
}

TEST(InitialValues, AreOfTheirDistribution) {
  EXPECT_TRUE(whole("w", Initial::zeros()).eq(0).all().item<bool>());
  EXPECT_TRUE(whole("w", Initial::ones()).eq(1).all().item<bool>());
  const at::Tensor normal = whole("w", Initial::normal(0.5)), uniform = whole("w", Initial::uniform(0.5));
  EXPECT_NEAR(normal.mean().item<double>(), 0, 0.02);
  EXPECT_NEAR(normal.std().item<double>(), 0.5, 0.02);
  EXPECT_GT(normal.abs().max().item<double>(), 1.5);
  EXPECT_NEAR(uniform.mean().item<double>(), 0, 0.02);
  EXPECT_NEAR(uniform.std().item<double>(), 0.5 / std::sqrt(3.0), 0.01);
  EXPECT_LE(uniform.abs().max().item<double>(), 0.5);
  EXPECT_GT(uniform.max().item<double>(), 0.49);
  EXPECT_LT(uniform.min().item<double>(), -0.49);
}

TEST(InitialValues, FollowSeedAndName) {
  const Initial uniform = Initial::uniform(1);
  EXPECT_TRUE(whole("w", uniform).equal(whole("w", uniform)));
  EXPECT_FALSE(whole("w", uniform).equal(whole("v", uniform)));
  EXPECT_FALSE(whole("w", uniform).equal(whole("w", uniform, 2)));
}

TEST(InitialValues, OfAShardAreThoseOfTheWhole) {
  const GridShape grid{.x = 3, .z = 2};
  for (const Initial& initial : {Initial::normal(1), Initial::uniform(1)}) {
    const at::Tensor block = whole("w", initial).view({300, 40}).narrow(0, 100, 100).flatten();  // block of x = 1
    const at::Tensor half = initial_values("w", initial, spec(), grid, {.x = 1, .z = 1}, {2000, 4000}, 1, at::kDouble);
    EXPECT_TRUE(half.equal(block.narrow(0, 2000, 2000)));
  }
}

}  // namespace
}  // namespace axonn
