// The kernel of bias, dropout and residual gives the numbers of fp64.
#include "kernels/gpu/tail_rows.hpp"

#include <gtest/gtest.h>

#include <string>

#include "gpu/kernels/kernel_case.hpp"
#include "gpu/kernels/kernel_memory.hpp"
#include "gpu/kernels/kernel_values.hpp"

namespace axonn {
namespace {

using namespace kernel_test;

template <typename Element>
void expect_fp64(int64_t rows, int64_t width, int parts, int64_t skip, const Runs& runs = {.on_device = 1}) {
  const bool has_bias = parts & 1, has_mask = parts & 2, has_residual = parts & 4;
  const Case named("add_tail, " + std::to_string(rows) + " x " + std::to_string(width) + " from element " +
                   std::to_string(skip) + (has_bias ? ", bias" : "") + (has_mask ? ", mask" : "") +
                   (has_residual ? ", residual" : "") + ", " + kName<Element>);
  in_each_order(runs, [&] {
    Values<Element> sums("sums", rows * width, waves(0.1), skip), bias("bias", width, waves(0.7)),
        mask("mask", rows * width, waves(1.9), skip), residual("residual", rows * width, waves(2.3), skip);
    const Values<Element> before("sums", rows * width, waves(0.1));
    add_tail({.type = kType<Element>,
              .rows = rows,
              .width = width,
              .sums = sums.out(),
              .bias = has_bias ? bias.in() : nullptr,
              .mask = has_mask ? mask.in() : nullptr,
              .residual = has_residual ? residual.in() : nullptr},
             0);
    compare([&] {
      for (int64_t i = 0; i < rows * width; ++i) {
        const double expected = (before[i] + (has_bias ? bias[i % width] : 0)) * (has_mask ? mask[i] : 1) +
                                (has_residual ? residual[i] : 0);
        ASSERT_NEAR(sums[i], expected, 4 * kRounding<Element>) << "row " << i / width << ", column " << i % width;
      }
    });
  });
}

template <typename Element>
class TailKernel : public testing::Test {};
TYPED_TEST_SUITE(TailKernel, Elements);

TYPED_TEST(TailKernel, EqualsFp64) {
  for (int parts = 1; parts < 8; ++parts)
    for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{1, 1}, {3, 7}, {5, 64}, {70, 24}})
      for (const int64_t skip : {0, 1}) expect_fp64<TypeParam>(rows, width, parts, skip);
}

TYPED_TEST(TailKernel, EqualsFp64InUsersRows) {
  for (const int64_t width : {256, 768, 1280, 1600}) expect_fp64<TypeParam>(5, width, 7, 0);
}

// More elements than threads.
TEST(TailKernelLarge, EqualsFp64) { expect_fp64<float>(1025, 2051, 5, 0, kLarge); }

}  // namespace
}  // namespace axonn
