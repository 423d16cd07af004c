// The kernel, run on the host, gives the mask of the CPU bit for bit.
#include "layers/ops/dropout_mask.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "gpu/host/host_values.hpp"

namespace axonn {
namespace {

template <typename Element>
void expect_same_of(const DropoutMask& mask, const std::vector<MaskColumns>& pieces) {
  for (const host_cuda::Order order : host_cuda::kOrders) {
    host_cuda::order = order;
    const auto size = static_cast<size_t>(mask.rows * mask.width);
    std::vector<float> expected(size, -1);
    std::vector<Element> result(size, static_cast<Element>(-1.0f));
    for (const MaskColumns& columns : pieces) {
      fill_mask(expected.data(), mask, columns);
      fill_cuda_mask(result.data(), host_cuda::kType<Element>, mask, columns, 0);
    }
    EXPECT_EQ(std::ranges::count(expected, -1), 0);
    EXPECT_TRUE(std::ranges::equal(result, expected, {}, {}, [](float value) { return static_cast<Element>(value); }));
  }
}

void expect_same(const DropoutMask& mask, const std::vector<MaskColumns>& pieces) {
  expect_same_of<float>(mask, pieces);
  expect_same_of<double>(mask, pieces);
  expect_same_of<c10::BFloat16>(mask, pieces);
  expect_same_of<c10::Half>(mask, pieces);
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

TEST(DropoutMaskOnTheDevice, CountsFromAnOrigin) {
  const int64_t sample = 7 * 9, origin = int64_t{3} << 40;
  DropoutMask mask{.seed = 5, .probability = 0.4, .rows = 14, .width = 9, .inner = 14, .inner_stride = 9};
  mask.first = (origin + 4) * sample;
  std::vector<float> expected(14 * 9), result(14 * 9);
  fill_mask(expected.data(), mask, {0, 0, 9});
  mask.first = 4 * sample;
  mask.origin = &origin;
  mask.sample = sample;
  fill_cuda_mask(result.data(), c10::ScalarType::Float, mask, {0, 0, 9}, 0);
  EXPECT_EQ(result, expected);
}

TEST(DropoutMaskOnTheDevice, EqualsTheCpusInMoreElementsThanThreads) {
  expect_same_of<float>(
      {.seed = 3, .stream = 1, .probability = 0.1, .rows = 2053, .width = 2051, .inner = 2053, .inner_stride = 2051},
      {{0, 0, 2051}});
}

}  // namespace
}  // namespace axonn
