#include "axonn/coconet/stages/pointwise_kernel.hpp"

#include <gtest/gtest.h>

#include "support/user_error.hpp"

namespace axonn::coconet {
namespace {

using Value = PointwiseKernel::Value;
using enum ElementType;

TEST(PointwiseKernel, RefusesUndefinedValuesAndWrongTypes) {
  PointwiseKernel k;
  const auto s = k.stream("s", fp32);
  const Value x = k.load(s), y = k.constant(2, fp64);
  using enum PointwiseOp;
  EXPECT_USER_ERROR(k.apply(add, {x, Value{}}), "undefined value", "got number -1");
  EXPECT_USER_ERROR(k.apply(add, {x, Value{99}}), "undefined value", "got number 99");
  EXPECT_USER_ERROR(k.load({4}), "undefined stream", "got number 4");
  EXPECT_USER_ERROR(k.apply(add, {x, y}), "add takes operands of one type, got fp32 and fp64");
  EXPECT_USER_ERROR(k.apply(add, {x}), "add needs 2 operands, got 1");
  EXPECT_USER_ERROR(k.apply(select, {x, x, x}), "the first operand of select must be a boolean, got fp32");
  EXPECT_USER_ERROR(k.apply(negate, {k.apply(less, {x, x})}), "negate takes no boolean operands");
  EXPECT_USER_ERROR(k.store(s, y), "stream 's' has elements of fp32, got a value of fp64");
  EXPECT_USER_ERROR(k.stream("t", boolean), "got boolean");
  EXPECT_USER_ERROR(k.reduce(ReduceOp::sum, {}), "undefined value");
  EXPECT_USER_ERROR(k.cast({}, fp64), "undefined value");
  k.store(s, x);
  EXPECT_USER_ERROR(k.store(s, x), "stream 's' is stored twice");
}

TEST(PointwiseKernel, RefusesMoreThanItsLimits) {
  PointwiseKernel k;
  for (int i = 0; i < PointwiseKernel::kMostStreams; ++i) k.stream("s", fp32);
  EXPECT_USER_ERROR(k.stream("last", fp32), "at most 16 streams", "'last'");
  for (int i = 0; i < PointwiseKernel::kMostMasks; ++i) k.dropout_mask("d");
  EXPECT_USER_ERROR(k.dropout_mask("last"), "at most 4 dropout masks");
  const Value x = k.load({0});
  for (int i = 0; i < PointwiseKernel::kMostReductions; ++i) k.reduce(ReduceOp::sum, x);
  EXPECT_USER_ERROR(k.reduce(ReduceOp::sum, x), "at most 8 reductions");
}

}  // namespace
}  // namespace axonn::coconet
