// How fast attention is beside its axis, as a run measures it.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "axonn/train/attention_balance.hpp"
#include "support/rank_test.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

TEST(AttentionBalance, IsMeasuredOnceForAllRanks) {
  const int ranks = test_environment().ranks();
  const auto measured = [&](const GridShape& shape, AttentionRows rows) {
    return measure_attention_balance(test_environment(), shape, {.forward = {.attention_rows = rows}});
  };
  const AttentionBalance along_y = measured({.y = ranks}, AttentionRows::automatic);
  EXPECT_EQ(along_y.x, 0);
  EXPECT_GT(along_y.y, 0);
  const at::Tensor least = at::full({1}, along_y.y, at::kDouble), most = least.clone();
  test_environment().world().all_reduce(least, ReduceOp::min).wait();
  test_environment().world().all_reduce(most, ReduceOp::max).wait();
  EXPECT_TRUE(least.equal(most));
  EXPECT_GT(measured({.x = ranks}, AttentionRows::automatic).x, 0);
  EXPECT_FALSE(measured({.z = ranks}, AttentionRows::automatic).measured());
  for (const AttentionRows rows : {AttentionRows::on, AttentionRows::off})
    EXPECT_FALSE(measured({.y = ranks}, rows).measured());
}

TEST(AttentionBalance, IsReadAsItIsWritten) {
  for (const AttentionBalance& each : {AttentionBalance{}, {.x = 1.0 / 3, .y = 41.25}, {.x = 1e-9, .y = 1e12}})
    EXPECT_EQ(parse_attention_balance(each.to_string()), each);
  for (const char* text : {"", "1", "1 ", "1 2 3", "1,2", "-1 2", "1 x"})
    EXPECT_USER_ERROR(parse_attention_balance(text), "two numbers", text);
}

}  // namespace
}  // namespace axonn
