// The kernel, run on the host, gives the numbers of fp64.
#include "layers/ops/tail_rows.hpp"

#include <gtest/gtest.h>

#include <span>

#include "gpu/host/host_values.hpp"

namespace axonn {
namespace {

using host_cuda::kOrders;
using host_cuda::kRounding;
using host_cuda::kType;
using host_cuda::Order;
using host_cuda::Values;

template <typename Element>
void expect_fp64(int64_t rows, int64_t width, int parts, int64_t skip, std::span<const Order> orders = kOrders) {
  const bool has_bias = parts & 1, has_mask = parts & 2, has_residual = parts & 4;
  for (const Order order : orders) {
    host_cuda::order = order;
    Values<Element> sums(rows * width, 0.1, skip), before(rows * width, 0.1, skip), bias(width, 0.7),
        mask(rows * width, 1.9, skip), residual(rows * width, 2.3, skip);
    add_tail({.type = kType<Element>,
              .rows = rows,
              .width = width,
              .sums = sums.begin(),
              .bias = has_bias ? bias.begin() : nullptr,
              .mask = has_mask ? mask.begin() : nullptr,
              .residual = has_residual ? residual.begin() : nullptr},
             0);
    for (int64_t i = 0; i < rows * width; ++i) {
      const double expected =
          (before[i] + (has_bias ? bias[i % width] : 0)) * (has_mask ? mask[i] : 1) + (has_residual ? residual[i] : 0);
      ASSERT_NEAR(sums[i], expected, 4 * kRounding<Element>) << i << " of " << rows << " x " << width;
    }
  }
}

template <typename Element>
class TailKernel : public testing::Test {};
using Elements = testing::Types<double, float, c10::BFloat16, c10::Half>;
TYPED_TEST_SUITE(TailKernel, Elements);

TYPED_TEST(TailKernel, EqualsFp64) {
  for (int parts = 1; parts < 8; ++parts)
    for (const auto& [rows, width] : {std::pair<int64_t, int64_t>{1, 1}, {3, 7}, {5, 64}, {70, 24}})
      for (const int64_t skip : {0, 1}) expect_fp64<TypeParam>(rows, width, parts, skip);
}

// More elements than threads.
TEST(TailKernelOfManyRows, EqualsFp64) { expect_fp64<float>(1025, 2051, 5, 0, std::span(kOrders, 1)); }

}  // namespace
}  // namespace axonn
