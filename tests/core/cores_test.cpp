#include "core/cores.hpp"

#include <gtest/gtest.h>

namespace axonn {
namespace {

TEST(Cores, OfAHostAreDividedOnce) {
  EXPECT_EQ(cores_of_rank(/*local_ranks=*/8, /*usable=*/32, /*online=*/32), 4);
  EXPECT_EQ(cores_of_rank(8, 4, 32), 4) << "a launcher has bound each rank to its own";
  EXPECT_EQ(cores_of_rank(8, 1, 32), 1);
  EXPECT_EQ(cores_of_rank(64, 32, 32), 1);
  EXPECT_GE(cores_of_rank(1), 1);
  EXPECT_LE(cores_of_rank(1), usable_cores());
}

}  // namespace
}  // namespace axonn
