#include "axonn/comm/arena_owners.hpp"

#include <gtest/gtest.h>

namespace axonn {
namespace {

constexpr int64_t kBlock = ArenaOwners::kBlock;

TEST(ArenaOwners, DealOutBlocksInTurn) {
  const ArenaOwners owners(3);
  EXPECT_EQ(owners.owner(0), 0);
  EXPECT_EQ(owners.owner(kBlock - 1), 0);
  EXPECT_EQ(owners.owner(kBlock), 1);
  EXPECT_EQ(owners.owner(3 * kBlock), 0);
  EXPECT_EQ(owners.ranges(0, {0, 4 * kBlock}), (std::vector<Range>{{0, kBlock}, {3 * kBlock, 4 * kBlock}}));
  EXPECT_EQ(owners.ranges(1, {kBlock + 5, kBlock + 6}), (std::vector<Range>{{kBlock + 5, kBlock + 6}}));
  EXPECT_EQ(owners.ranges(2, {0, kBlock}), std::vector<Range>());
}

// Every element has one owner, and the owner's number for it.
TEST(ArenaOwners, NumberTheElementsOfEachOwner) {
  for (const int members : {1, 2, 3, 8}) {
    const ArenaOwners owners(members);
    for (const Range& range : {Range{0, 0}, Range{0, 100'003}, Range{6000, 6001}, Range{4095, 12'289}}) {
      int64_t all = 0;
      for (int owner = 0; owner < members; ++owner) {
        int64_t next = owners.count_below(owner, range.begin);
        for (const Range& owned : owners.ranges(owner, range))
          for (int64_t i = owned.begin; i < owned.end; ++i, ++next) {
            ASSERT_EQ(owners.owner(i), owner);
            ASSERT_EQ(owners.count_below(owner, i), next);
          }
        EXPECT_EQ(owners.count(owner, range), next - owners.count_below(owner, range.begin));
        all += owners.count(owner, range);
      }
      EXPECT_EQ(all, range.size());
    }
  }
}

}  // namespace
}  // namespace axonn
