#include "axonn/coconet/language/size.hpp"

#include <gtest/gtest.h>

#include "support/user_error.hpp"

namespace axonn::coconet {
namespace {

TEST(Size, IsAProductOfSymbols) {
  const Size h("H"), b("B");
  EXPECT_EQ((4 * h).to_string(), "4*H");
  EXPECT_EQ(h * b, b * h);
  EXPECT_NE(2 * h, h);
  EXPECT_EQ((h * h).to_string(), "H*H");
  EXPECT_EQ(Size(1).to_string(), "1");
  EXPECT_EQ((4 * h * b).value({{"H", 3}, {"B", 5}}), 60);
  EXPECT_EQ(to_string(Shape{"B", 4 * h, 1}), "[B, 4*H, 1]");
}

TEST(Size, RefusesWhatHasNoValue) {
  EXPECT_USER_ERROR(Size("H").value({{"B", 2}}), "size H has no value");
  EXPECT_USER_ERROR(Size("H").value({{"H", 0}}), "size H must be at least 1, got 0");
  EXPECT_USER_ERROR(Size(int64_t{0}), "at least one element, got 0");
  const Size large(int64_t{1} << 40);
  EXPECT_USER_ERROR(large * large, "1099511627776*1099511627776 needs more than 64 bits");
  EXPECT_USER_ERROR((large * Size("H")).value({{"H", int64_t{1} << 40}}), "needs more than 64 bits");
}

TEST(Size, CountsElementsWithin64Bits) {
  EXPECT_EQ(count_of({int64_t{1} << 31, int64_t{1} << 31}), int64_t{1} << 62);
  EXPECT_USER_ERROR(count_of({int64_t{1} << 32, int64_t{1} << 32}), "4294967296*4294967296", "more than 64 bits");
  EXPECT_USER_ERROR(count_of({3, int64_t{1} << 62}), "3*4611686018427387904 elements");
}

}  // namespace
}  // namespace axonn::coconet
