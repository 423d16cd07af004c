#include "overlap/step/gather_order.hpp"

#include <gtest/gtest.h>

namespace axonn {
namespace {

// Records the weights in turn and counts those that were not predicted.
int surprises(GatherOrder& order, Phase phase, const std::vector<int>& weights) {
  int count = 0;
  for (const int weight : weights) count += order.note({phase, weight}) ? 0 : 1;
  return count;
}

std::vector<int> coming(GatherOrder& order, int count) {
  std::vector<int> weights;
  for (const auto& place : order.predict(count)) weights.push_back(place.weight);
  return weights;
}

TEST(GatherOrder, IsLearnedFromOnePass) {
  GatherOrder order;
  EXPECT_EQ(surprises(order, Phase::train, {0, 1, 2}), 3);
  EXPECT_EQ(surprises(order, Phase::backward, {2, 1, 0}), 3);
  EXPECT_EQ(surprises(order, Phase::train, {0, 1, 2}), 2);  // the return to the start, and the next step, are new
  EXPECT_EQ(surprises(order, Phase::backward, {2, 1, 0}), 0);
  EXPECT_EQ(surprises(order, Phase::train, {0, 1, 2}), 0);
  EXPECT_EQ(coming(order, 3), (std::vector<int>{2, 1, 0}));
}

TEST(GatherOrder, KeepsThePhasesApart) {
  GatherOrder order;
  surprises(order, Phase::train, {0, 1, 2});
  surprises(order, Phase::recompute, {0, 1});
  surprises(order, Phase::backward, {1, 0});
  surprises(order, Phase::train, {0, 1});
  EXPECT_EQ(coming(order, 1), (std::vector<int>{2}));
  surprises(order, Phase::train, {2});
  surprises(order, Phase::recompute, {0, 1});
  EXPECT_EQ(coming(order, 2), (std::vector<int>{1, 0}));
}

TEST(GatherOrder, TellsTheUsesOfASharedWeightApart) {
  GatherOrder order;
  const std::vector<int> pass = {0, 1, 0, 2};
  surprises(order, Phase::evaluate, pass);
  surprises(order, Phase::evaluate, pass);
  EXPECT_EQ(surprises(order, Phase::evaluate, pass), 0);
}

TEST(GatherOrder, LearnsAChangeAtOnce) {
  GatherOrder order;
  for (int i = 0; i < 3; ++i) surprises(order, Phase::evaluate, {0, 1, 2, 3});
  EXPECT_GT(surprises(order, Phase::evaluate, {0, 2, 3}), 0);  // 1 is skipped
  surprises(order, Phase::evaluate, {0, 2, 3});
  EXPECT_EQ(surprises(order, Phase::evaluate, {0, 2, 3}), 0);
}

}  // namespace
}  // namespace axonn
