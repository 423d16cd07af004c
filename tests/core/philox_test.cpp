#include "axonn/core/philox.hpp"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

namespace axonn {
namespace {

using Words = std::array<uint32_t, 4>;

// Known results from the authors' own test file, for philox4x32 with 10 rounds.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox(0, 0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~0ull, ~0ull, ~0u, ~0u), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x13198a2e, 0x03707344),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, EveryPartOfKeyAndCounterCounts) {
  const std::set<Words> seen = {philox(1, 2, 3, 4),
                                philox(2, 2, 3, 4),
                                philox(1ull << 32 | 1, 2, 3, 4),
                                philox(1, 3, 3, 4),
                                philox(1, 1ull << 32 | 2, 3, 4),
                                philox(1, 2, 4, 4),
                                philox(1, 2, 3, 5)};
  EXPECT_EQ(seen.size(), 7u);
}

TEST(PhiloxStream, TellsPurposeAndNameApart) {
  EXPECT_EQ(philox_stream("", ""), 2166136261u * 16777619u);  // FNV-1a of the one byte between them
  EXPECT_NE(philox_stream("initial", "w"), philox_stream("dropout", "w"));
  EXPECT_NE(philox_stream("a", "bc"), philox_stream("ab", "c"));
}

TEST(ToUniform, StaysBelowOne) {
  EXPECT_EQ(to_uniform(0), 0.0);
  EXPECT_LT(to_uniform(0xffffffffu), 1.0);
  EXPECT_EQ(to_uniform(0x80000000u), 0.5);
}

TEST(ToNormal, HasTheMomentsOfAStandardNormal) {
  constexpr int kDraws = 400000;
  double sum[5] = {};
  int beyond_two = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = to_normal(philox(7, static_cast<uint64_t>(i), 0, philox_stream("test", "normal")));
    for (int k = 1; k <= 4; ++k) sum[k] += std::pow(x, k);
    beyond_two += std::abs(x) > 2;
  }
  const double error = 5 / std::sqrt(kDraws);  // five standard deviations of a mean of unit variance
  EXPECT_NEAR(sum[1] / kDraws, 0, error);
  EXPECT_NEAR(sum[2] / kDraws, 1, error * std::sqrt(2));
  EXPECT_NEAR(sum[3] / kDraws, 0, error * std::sqrt(15));
  EXPECT_NEAR(sum[4] / kDraws, 3, error * std::sqrt(96));
  EXPECT_NEAR(static_cast<double>(beyond_two) / kDraws, 0.0455003, error * 0.21);
}

TEST(ToNormal, IsFiniteForEveryExtreme) {
  for (const uint32_t a : {0u, ~0u})
    for (const uint32_t b : {0u, ~0u}) EXPECT_TRUE(std::isfinite(to_normal({a, a, b, b})));
  EXPECT_LT(std::abs(to_normal({0, 0, 0, 0})), 9);
}

}  // namespace
}  // namespace axonn
