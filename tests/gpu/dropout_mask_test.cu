// The kernel's code for each element, run on the host, gives the mask of the CPU bit for bit.
#include <vector>

#include <gtest/gtest.h>

#include "layers/ops/dropout_mask_element.cuh"

namespace axonn {
namespace {

void expect_same(const DropoutMask& mask, const std::vector<MaskColumns>& pieces) {
  const auto size = static_cast<size_t>(mask.rows * mask.width);
  std::vector<float> expected(size, -1), result(size, -1);
  for (const MaskColumns& columns : pieces) {
    fill_mask(expected.data(), mask, columns);
    for (int64_t index = 0; index < mask.rows * columns.size; ++index)
      store_mask_element(result.data(), mask, columns, index);
  }
  EXPECT_EQ(result, expected);
  for (const float value : expected) EXPECT_NE(value, -1);
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

}  // namespace
}  // namespace axonn
