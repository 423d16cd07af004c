// The kernel, run on the host, gives the mask of the CPU bit for bit.
#include "layers/ops/dropout_mask.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "gpu/host/host_cuda.hpp"

namespace axonn {
namespace {

void expect_same(const DropoutMask& mask, const std::vector<MaskColumns>& pieces) {
  using host_cuda::Order;
  for (const Order order : {Order::ascending, Order::descending, Order::odd_first}) {
    host_cuda::order = order;
    const auto size = static_cast<size_t>(mask.rows * mask.width);
    std::vector<float> expected(size, -1), result(size, -1);
    for (const MaskColumns& columns : pieces) {
      fill_mask(expected.data(), mask, columns);
      fill_cuda_mask(result.data(), mask, columns, 0);
    }
    EXPECT_EQ(result, expected);
    for (const float value : expected) EXPECT_NE(value, -1);
  }
}

TEST(DropoutMaskOnTheDevice, EqualsTheCpusOfFeaturesInTwoPieces) {
  expect_same({.seed = 0x123456789abcdef0,
               .stream = 77,
               .probability = 0.3,
               .rows = 12,
               .width = 9,
               .first = int64_t{5} << 33,
               .inner = 12,
               .inner_stride = 21},
              {{0, 3, 4}, {4, 14, 5}});
}

TEST(DropoutMaskOnTheDevice, EqualsTheCpusOfAttention) {
  const int64_t heads = 6, queries = 5, keys = 7;
  expect_same({.seed = 1,
               .stream = 0xfedcba98,
               .probability = 0.5,
               .rows = 2 * 3 * queries,
               .width = keys,
               .first = (11 * heads + 3) * queries * keys,
               .middle = 3,
               .inner = queries,
               .outer_stride = heads * queries * keys,
               .middle_stride = queries * keys,
               .inner_stride = keys},
              {{0, 0, keys}});
}

TEST(DropoutMaskOnTheDevice, EqualsTheCpusInMoreElementsThanThreads) {
  expect_same(
      {.seed = 3, .stream = 1, .probability = 0.1, .rows = 1031, .width = 1021, .inner = 1031, .inner_stride = 1021},
      {{0, 0, 1021}});
}

}  // namespace
}  // namespace axonn
