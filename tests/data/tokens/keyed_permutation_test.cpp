#include "data/tokens/keyed_permutation.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace axonn {
namespace {

std::vector<uint64_t> order_of(uint64_t size, KeyedPermutation::Key key) {
  const KeyedPermutation permutation(size, key);
  std::vector<uint64_t> order(size);
  for (uint64_t i = 0; i < size; ++i) order[i] = permutation(i);
  return order;
}

TEST(KeyedPermutation, EveryNumberComesOnce) {
  std::vector<uint64_t> sizes(70);
  std::iota(sizes.begin(), sizes.end(), 1);
  for (const uint64_t size : {100U, 255U, 256U, 257U, 1000U, 4096U, 4097U}) sizes.push_back(size);
  for (const uint64_t size : sizes)
    for (uint32_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<uint64_t> order = order_of(size, {.seed = 5, .epoch = epoch, .stream = 1});
      std::ranges::sort(order);
      for (uint64_t i = 0; i < size; ++i) ASSERT_EQ(order[i], i) << size;
    }
}

TEST(KeyedPermutation, SeedEpochAndStreamGiveOtherOrders) {
  const auto order = order_of(1000, {.seed = 1, .epoch = 2, .stream = 3});
  EXPECT_EQ(order, order_of(1000, {.seed = 1, .epoch = 2, .stream = 3}));
  EXPECT_NE(order, order_of(1000, {.seed = 2, .epoch = 2, .stream = 3}));
  EXPECT_NE(order, order_of(1000, {.seed = 1, .epoch = 3, .stream = 3}));
  EXPECT_NE(order, order_of(1000, {.seed = 1, .epoch = 2, .stream = 4}));
}

// 4000 keys put each of 8 numbers first 500 times, up to five standard deviations.
TEST(KeyedPermutation, EveryNumberIsFirstAlikeOften) {
  std::vector<int> first(8);
  for (uint64_t seed = 0; seed < 4000; ++seed) ++first[KeyedPermutation(8, {.seed = seed, .epoch = 0, .stream = 0})(0)];
  for (const int count : first) EXPECT_NEAR(count, 500, 5 * 21);
}

TEST(KeyedPermutation, NeighboursAreFarApart) {
  const auto order = order_of(100'000, {.seed = 1, .epoch = 0, .stream = 0});
  int near = 0;
  for (size_t i = 1; i < order.size(); ++i) near += order[i] - order[i - 1] + 10 < 20;
  EXPECT_NEAR(near, 19, 5 * 4.4);  // 19 differences in 100 000 are small
}

TEST(KeyedPermutation, LargeSizesNeedNoMemory) {
  const uint64_t size = (uint64_t{1} << 40) + 12345;
  const KeyedPermutation permutation(size, {.seed = 1, .epoch = 0, .stream = 0});
  for (const uint64_t number : {uint64_t{0}, uint64_t{1} << 39, size - 1}) EXPECT_LT(permutation(number), size);
}

// A change of the order would change every run.
TEST(KeyedPermutation, TheOrderStaysForEver) {
  EXPECT_EQ(order_of(10, {.seed = 1, .epoch = 2, .stream = 3}), (std::vector<uint64_t>{3, 4, 7, 9, 5, 2, 1, 8, 6, 0}));
}

}  // namespace
}  // namespace axonn
