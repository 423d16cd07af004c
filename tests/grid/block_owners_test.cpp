#include "axonn/grid/block_owners.hpp"

#include <random>

#include <gtest/gtest.h>

#include "support/user_error.hpp"

namespace axonn {
namespace {

TEST(BlockOwners, DealBlocksInTurn) {
  const BlockOwners owners(3);
  EXPECT_EQ(owners.owner(0), 0);
  EXPECT_EQ(owners.owner(4095), 0);
  EXPECT_EQ(owners.owner(4096), 1);
  EXPECT_EQ(owners.owner(3 * 4096 - 1), 2);
  EXPECT_EQ(owners.owner(3 * 4096), 0);
  EXPECT_EQ(owners.ranges(1, {5000, 20000}), (std::vector<Range>{{5000, 8192}, {16384, 20000}}));
  EXPECT_EQ(owners.count(1, {5000, 20000}), 3192 + 3616);
  EXPECT_TRUE(owners.ranges(2, {0, 8192}).empty());
  EXPECT_TRUE(owners.ranges(0, {7, 7}).empty());
}

TEST(BlockOwners, OneMemberOwnsAllAsOneRange) {
  EXPECT_EQ(BlockOwners(1, 4).ranges(0, {3, 21}), (std::vector<Range>{{3, 21}}));
  EXPECT_EQ(BlockOwners(1, 4).count(0, {3, 21}), 18);
}

// Counts, ranges and places agree with the definition, element by element.
TEST(BlockOwners, AgreeWithTheDefinitionOfAnOwner) {
  std::mt19937_64 random(7);
  const auto below = [&](int64_t end) { return static_cast<int64_t>(random() % static_cast<uint64_t>(end)); };
  for (int round = 0; round < 200; ++round) {
    const auto members = static_cast<int>(1 + below(6));
    const int64_t block = 1 + below(9), begin = below(100);
    const BlockOwners owners(members, block);
    const Range range{begin, begin + below(100)};
    for (int member = 0; member < members; ++member) {
      std::vector<int64_t> expected, found;
      for (int64_t i = range.begin; i < range.end; ++i) {
        if (i / block % members != member) continue;
        EXPECT_EQ(owners.count(member, {range.begin, i}), std::ssize(expected));
        EXPECT_EQ(owners.owner(i), member);
        expected.push_back(i);
      }
      int64_t end = -1;
      for (const Range& part : owners.ranges(member, range)) {
        EXPECT_GT(part.begin, end);
        end = part.end;
        for (int64_t i = part.begin; i < part.end; ++i) found.push_back(i);
      }
      EXPECT_EQ(found, expected);
      EXPECT_EQ(owners.count(member, range), std::ssize(expected));
    }
  }
}

TEST(BlockOwners, RefuseWhatIsNoBlockAndNoGroup) {
  EXPECT_USER_ERROR(BlockOwners(0), "got 0 owners and 4096 elements");
  EXPECT_USER_ERROR(BlockOwners(2, 0), "got 2 owners and 0 elements");
  EXPECT_USER_ERROR(BlockOwners(2, (int64_t{1} << 31) + 1), "at least 1 owner");
}

}  // namespace
}  // namespace axonn
