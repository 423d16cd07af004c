// The parts of an overlapped product: images or rows are computed once, before their release.
#include "axonn/overlap/step/row_product.hpp"

#include <string>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

namespace axonn {
namespace {

struct Size {
  int64_t units = 0, unit = 0, width = 0;
};

Group group_of(int size, int index) {
  Group group{.axes = {}, .ranks = {}, .index = index};
  for (int rank = 0; rank < size; ++rank) group.ranks.push_back(rank);
  return group;
}

class RowProducts : public ::testing::TestWithParam<Size> {};

TEST_P(RowProducts, ComputeWholeUnitsOnceAndBeforeTheirRelease) {
  const auto [units, unit, width] = GetParam();
  for (const int members : {1, 2, 3, 4, 16})
    for (int index = 0; index < members; index += 3) {
      const at::Tensor output = at::zeros({units * unit, width}, at::kFloat);
      const auto counter = std::make_shared<ProducerCounter>();
      int64_t calls = 0, released = 0;
      ProducedParts parts(group_of(1, 0), 0, 1, 1);
      const auto check_released = [&] {  // before each call and at the end
        for (; counter->reached(static_cast<uint32_t>(released) + 1) && released < parts.size(); ++released) {
          const Range part = parts[released];
          EXPECT_TRUE(output.flatten().narrow(0, part.begin, part.size()).eq(1).all().item<bool>())
              << "part " << released << " of " << members << " members";
        }
      };
      const RowProduct product{.rows = units * unit,
                               .width = width,
                               .unit = unit,
                               .options = output.options(),
                               .all = {},
                               .some =
                                   [&](const at::Tensor& to, Range rows) {
                                     check_released();
                                     EXPECT_EQ(rows.begin % unit, 0);
                                     EXPECT_EQ(rows.size() % unit, 0);
                                     EXPECT_EQ(to.data_ptr(), output[rows.begin].data_ptr());
                                     EXPECT_EQ(to.size(0), rows.size());
                                     to.add_(1);
                                     ++calls;
                                   },
                               .owner = {}};
      parts = parts_of(product, group_of(members, index));
      Production production(counter, parts);
      produce(product, output, production);
      check_released();
      EXPECT_EQ(released, parts.size());
      EXPECT_TRUE(output.eq(1).all().item<bool>()) << members << " members";
      EXPECT_LE(calls, std::min(units, parts.size()));
    }
}

INSTANTIATE_TEST_SUITE_P(Sizes, RowProducts,
                         ::testing::Values(Size{1, 1024, 64}, Size{3, 1024, 64}, Size{33, 256, 24}, Size{64, 16, 40},
                                           Size{1300, 1, 42}, Size{5, 200'000, 8}, Size{7, 64, 0}, Size{0, 64, 8}));

// 16 images of 1024 pixels on two members: every range of a share is one or two whole images.
TEST(RowProductParts, AreWholeImages) {
  const RowProduct product{
      .rows = 16 * 1024, .width = 64, .unit = 1024, .options = at::kFloat, .all = {}, .some = {}, .owner = {}};
  const ProducedParts parts = parts_of(product, group_of(2, 0));
  EXPECT_GE(parts.ranges(), 4);
  for (int64_t number = 0; number < parts.size(); ++number) {
    EXPECT_EQ(parts[number].begin % (1024 * 64), 0);
    EXPECT_EQ(parts[number].size() % (1024 * 64), 0);
  }
  EXPECT_EQ(parts.range(0).size(), 1024 * 64);  // the wire waits for one image
}

}  // namespace
}  // namespace axonn
