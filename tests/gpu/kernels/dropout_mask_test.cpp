// The kernel gives the mask of the CPU bit for bit.
#include "kernels/dropout_mask.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "gpu/kernels/kernel_case.hpp"
#include "gpu/kernels/kernel_memory.hpp"
#include "gpu/kernels/kernel_values.hpp"

namespace axonn {
namespace {

using namespace kernel_test;

std::string name_of(const DropoutMask& mask, const char* type) {
  return "fill_cuda_mask of " + std::to_string(mask.rows) + " x " + std::to_string(mask.width) + ", " + type;
}

template <typename Element>
void expect_same_of(const DropoutMask& mask, const std::vector<MaskColumns>& pieces,
                    const Runs& runs = {.on_device = 1}) {
  const Case named(name_of(mask, kName<Element>));
  std::vector<float> expected(static_cast<size_t>(mask.rows * mask.width), -1);
  for (const MaskColumns& columns : pieces) fill_mask(expected.data(), mask, columns);
  EXPECT_EQ(std::ranges::count(expected, -1), 0);
  in_each_order(runs, [&] {
    Values<Element> result("mask", mask.rows * mask.width, all(-1));
    for (const MaskColumns& columns : pieces) fill_cuda_mask(result.out(), kType<Element>, mask, columns, 0);
    compare([&] {
      for (int64_t i = 0; i < result.size(); ++i)
        ASSERT_EQ(result.at(i), static_cast<Element>(expected[static_cast<size_t>(i)])) << "element " << i;
    });
  });
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

// Two runs of 4 tokens of each sequence of 24; the rows begin in the second run.
TEST(DropoutMaskOnTheDevice, EqualsTheCpusOfDividedSequences) {
  expect_same({.seed = 3,
               .stream = 5,
               .probability = 0.3,
               .rows = 11,
               .width = 9,
               .first = 36,
               .first_row = 5,
               .middle = 2,
               .inner = 4,
               .outer_stride = 216,
               .middle_stride = 108,
               .inner_stride = 9},
              {{0, 0, 9}});
}

TEST(DropoutMaskOnTheDevice, CountsFromAnOrigin) {
  const int64_t sample = 7 * 9, origin = int64_t{3} << 40;
  DropoutMask mask{.seed = 5, .probability = 0.4, .rows = 14, .width = 9, .inner = 14, .inner_stride = 9};
  const Case named(name_of(mask, "fp32") + ", from an origin on the device");
  mask.first = (origin + 4) * sample;
  std::vector<float> expected(14 * 9);
  fill_mask(expected.data(), mask, {0, 0, 9});
  Values<int64_t> on_device("origin", 1, all(static_cast<double>(origin)));
  Values<float> result("mask", 14 * 9, all(-1));
  mask.first = 4 * sample;
  mask.origin = on_device.in();
  mask.sample = sample;
  fill_cuda_mask(result.out(), c10::ScalarType::Float, mask, {0, 0, 9}, 0);
  compare([&] {
    for (int64_t i = 0; i < result.size(); ++i)
      ASSERT_EQ(result.at(i), expected[static_cast<size_t>(i)]) << "element " << i;
  });
}

TEST(DropoutMaskOnTheDevice, EqualsTheCpusOfUsersFeatures) {
  for (const int64_t width : {768, 1280, 1600})
    expect_same_of<c10::BFloat16>(
        {.seed = 7, .stream = 2, .probability = 0.1, .rows = 9, .width = width, .inner = 9, .inner_stride = width},
        {{0, 0, width}});
}

// More elements than threads.
TEST(DropoutMaskOnTheDeviceLarge, EqualsTheCpus) {
  expect_same_of<float>(
      {.seed = 3, .stream = 1, .probability = 0.1, .rows = 2053, .width = 2051, .inner = 2053, .inner_stride = 2051},
      {{0, 0, 2051}}, kLarge);
}

}  // namespace
}  // namespace axonn
