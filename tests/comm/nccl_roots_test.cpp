#include "comm/nccl/nccl_roots.hpp"

#include <gtest/gtest.h>

namespace axonn {
namespace {

TEST(NcclRoots, AreTheFirstMembersOfBlocks) {
  EXPECT_EQ(nccl_roots(1, 128), (std::vector<int>{0}));
  EXPECT_EQ(nccl_roots(128, 128), (std::vector<int>{0}));
  EXPECT_EQ(nccl_roots(129, 128), (std::vector<int>{0, 65}));
  EXPECT_EQ(nccl_roots(5, 2), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(nccl_roots(7, 2), (std::vector<int>{0, 2, 4, 6}));
  EXPECT_EQ(nccl_roots(8, 3), (std::vector<int>{0, 3, 6}));
  EXPECT_EQ(nccl_roots(3, 1), (std::vector<int>{0, 1, 2}));
}

TEST(NcclRoots, NoneHasMoreMembersThanItMay) {
  for (const int size : {16384, 16385, 65536, 98304}) {
    auto begins = nccl_roots(size, 128);
    EXPECT_EQ(begins.size(), static_cast<size_t>((size + 127) / 128));
    begins.push_back(size);
    for (size_t i = 1; i < begins.size(); ++i) {
      EXPECT_GT(begins[i], begins[i - 1]);
      EXPECT_LE(begins[i] - begins[i - 1], 128);
    }
  }
}

}  // namespace
}  // namespace axonn
