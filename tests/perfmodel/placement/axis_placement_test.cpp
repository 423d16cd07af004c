#include "axonn/perfmodel/placement/axis_placement.hpp"

#include <gtest/gtest.h>

#include <set>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

using Sizes = std::vector<int64_t>;

TEST(AxisPlacement, EveryDivisionOfTheLevelsOccursOnce) {
  for (const Sizes& sizes : {Sizes{4, 8}, Sizes{2, 4, 4}, Sizes{6, 2}, Sizes{32}}) {
    int64_t gpus = 1;
    for (const int64_t size : sizes) gpus *= size;
    for (const GridShape& grid : factorisations(gpus)) {
      const auto all = placements(grid, sizes);
      std::set<std::string> seen;
      for (const AxisPlacement& placement : all) {
        EXPECT_EQ(placement.shape(), grid);
        for (size_t level = 0; level < sizes.size(); ++level) EXPECT_EQ(placement.levels[level].ranks(), sizes[level]);
        EXPECT_TRUE(seen.insert(placement.to_string()).second);
      }
      EXPECT_FALSE(all.empty());
    }
  }
  EXPECT_EQ(placements({.x = 4, .y = 8}, Sizes{4, 8}).size(), 3u);  // x4, x2 y2 or y4 in a node
  EXPECT_THROW(placements({.x = 4}, Sizes{4, 8}), UserError);
}

TEST(AxisPlacement, OfAnOrderIsWhereRanksLieNodeByNode) {
  const auto text = [](const GridShape& grid, const char* order, const Sizes& sizes) {
    const auto placement = placement_of_order(grid, parse_axis_order(order), sizes);
    return placement ? placement->to_string() : "none";
  };
  EXPECT_EQ(text({2, 1, 16, 1}, "xyzd", {4, 8}), "x2 z2 | z8");
  EXPECT_EQ(text({2, 1, 16, 1}, "zxyd", {4, 8}), "z4 | x2 z4");
  EXPECT_EQ(text({3, 4, 1, 1}, "xyzd", {4, 3}), "none");
  EXPECT_EQ(text({3, 4, 1, 1}, "yxzd", {4, 3}), "y4 | x3");
}

TEST(AxisPlacement, GivesTheOrderThatMeansItWhereThereIsOne) {
  const AxisPlacement inside = {{{.z = 4}, {.x = 2, .z = 4}}}, split = {{{.x = 2, .z = 2}, {.x = 2, .z = 4}}};
  const auto order = order_of_placement(inside);
  ASSERT_TRUE(order);
  EXPECT_EQ(placement_of_order({2, 1, 16, 1}, *order, Sizes{4, 8}), inside);
  EXPECT_FALSE(order_of_placement(split));  // both axes are split
}

// The rank map and the placement agree on how many members of an axis share a node.
TEST(AxisPlacement, AsARankMapPutsItsFactorsInsideANode) {
  for (const AxisPlacement& placement : placements({4, 2, 4, 1}, Sizes{4, 8})) {
    const Grid grid(placement.shape(), kDefaultOrder, rank_map(placement));
    for (const Axis axis : kAxes) {
      std::set<int> nodes;
      for (const int rank : grid.group(0, axis).ranks) nodes.insert(rank / 4);
      EXPECT_EQ(static_cast<int>(nodes.size()), placement.levels[1][axis]) << placement.to_string();
    }
  }
}

}  // namespace
}  // namespace axonn
