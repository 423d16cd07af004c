#include "axonn/data/tokens/blend.hpp"

#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "support/user_error.hpp"

namespace axonn {
namespace {

void expect_shares(const std::vector<int64_t>& weights, int64_t samples) {
  const int64_t sum = std::accumulate(weights.begin(), weights.end(), int64_t{0});
  Blend blend(weights);
  std::vector<int64_t> given(weights.size());
  for (int64_t n = 0; n < samples; ++n) {
    const Blend::Place place = blend.at(n);
    ASSERT_EQ(place.number, given[place.source]++) << "sample " << n;
    for (size_t i = 0; i < weights.size(); ++i) {
      const __int128 off = static_cast<__int128>(given[i]) * sum - static_cast<__int128>(weights[i]) * (n + 1);
      ASSERT_TRUE(-sum < off && off < sum) << "source " << i << " of " << weights.size() << " after " << n + 1;
    }
  }
}

TEST(Blend, EverySourceIsWithinOneSampleOfItsShareAtEveryMoment) {
  expect_shares({7, 3}, 1000);
  expect_shares({1}, 10);
  expect_shares({1, 1, 1}, 100);
  expect_shares({700'000'000, 300'000'000}, 1000);
  expect_shares({333'333'333, 333'333'334, 333'333'333}, 5000);
  expect_shares({3, 1, 1, 27, 18, 2, 20, 18}, 1000);  // the largest deficit first would be off by a whole sample
  std::vector<int64_t> one_heavy(30, 1);
  one_heavy.front() = 40;
  expect_shares(one_heavy, 5000);
  std::mt19937 engine(3);
  for (int turn = 0; turn < 60; ++turn) {
    std::vector<int64_t> weights(1 + engine() % 9);
    for (int64_t& weight : weights) weight = 1 + engine() % (turn % 2 == 0 ? 20 : 1'000'000'007);
    expect_shares(weights, 3000);
  }
}

TEST(Blend, ASampleFollowsFromItsNumber) {
  const std::vector<int64_t> weights = {500, 333, 167};
  Blend all(weights);
  std::vector<Blend::Place> places;
  for (int64_t n = 0; n < 3500; ++n) places.push_back(all.at(n));
  Blend jumping(weights);
  std::mt19937 engine(1);
  for (int turn = 0; turn < 300; ++turn) {
    const auto number = static_cast<int64_t>(engine() % 3500);
    const Blend::Place place = jumping.at(number), again = jumping.at(number), fresh = Blend(weights).at(number);
    const Blend::Place& expected = places[static_cast<size_t>(number)];
    for (const Blend::Place& one : {place, again, fresh}) {
      ASSERT_EQ(one.source, expected.source) << number;
      ASSERT_EQ(one.number, expected.number) << number;
    }
  }
}

TEST(Blend, ThousandsOfBillionsOfSamplesTakeNoLonger) {
  Blend blend({7, 3});
  const Blend::Place place = blend.at(10'000'000'000'000);
  EXPECT_EQ(place.source, blend.at(0).source);
  EXPECT_EQ(place.number, 7'000'000'000'000);
}

TEST(Blend, WeightsAreDecimalNumbers) {
  EXPECT_EQ(parse_weight("0.7", "w"), 700'000'000);
  EXPECT_EQ(parse_weight("3", "w"), 3'000'000'000);
  EXPECT_EQ(parse_weight(".25", "w"), 250'000'000);
  EXPECT_EQ(parse_weight("0.000000001", "w"), 1);
  for (const char* text : {"0", "0.0", "-1", "1e3", "0.0000000001", "1234567890", "", "a", "1.2.3"})
    EXPECT_USER_ERROR(parse_weight(text, "the weight of x"), "the weight of x must be a decimal number above 0");
}

TEST(Blend, WhatCannotBeBlendedIsRefused) {
  EXPECT_USER_ERROR(Blend({}), "needs sources");
  EXPECT_USER_ERROR(Blend({1, 0}), "a weight must be above 0, got 0");
  EXPECT_USER_ERROR(Blend({(int64_t{1} << 61) + 1, (int64_t{1} << 61) + 2}), "62 bits");
  EXPECT_USER_ERROR(Blend({1}).at(-1), "counted from 0");
}

}  // namespace
}  // namespace axonn
