#include "axonn/perfmodel/reduction/reduction_planner.hpp"

#include <malloc.h>

#include <gtest/gtest.h>

#include "axonn/grid/reduction/reduction_semantics.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

// Nodes of 4, with fast links inside and one slow link per node.
Machine two_levels() {
  Machine machine{.name = "two levels"};
  machine.levels = {{.name = "node", .size = 4, .bandwidth_gbps = 100, .latency_seconds = 1e-6},
                    {.name = "network", .size = 0, .bandwidth_gbps = 10, .latency_seconds = 1e-5}};
  return machine;
}

std::vector<std::vector<int>> groups_of(const Grid& grid, AxisSet axes) {
  std::vector<std::vector<int>> groups;
  for (const Group& group : grid.groups(axes)) groups.push_back(group.ranks);
  return groups;
}

TEST(PlannedReductions, SumOverTheGridsOwnGroupsInAnyOrderOfAxes) {
  for (const GridShape shape :
       {GridShape{.data = 8}, GridShape{.x = 2, .data = 4}, GridShape{.y = 2, .z = 2, .data = 2}})
    for (const char* order : {"xyzd", "dxyz", "zdyx"})
      for (const AxisSet axes : {AxisSet(Axis::data), AxisSet{Axis::z, Axis::data}}) {
        const Grid grid(shape, parse_axis_order(order));
        const auto planned = plan_reductions(two_levels(), grid, axes, 1e8);
        EXPECT_GE(planned.size(), 1u);
        for (size_t i = 0; i < planned.size(); ++i)
          EXPECT_NO_THROW(check_reduces(planned.program(i), groups_of(grid, axes), ReductionGoal::all_reduce))
              << planned.program(i).to_string() << " on " << shape.to_string() << " " << order;
      }
}

TEST(PlannedReductions, GoThroughTheNodesWhereThatIsFaster) {
  const auto planned = plan_reductions(two_levels(), Grid({.x = 1, .data = 8}), Axis::data, 1e9);
  for (size_t i = 1; i < planned.size(); ++i) EXPECT_LE(planned.seconds(i - 1), planned.seconds(i));
  // Of 1e9 bytes, a flat ring sends 2 * 7/8 over a node's link. A program that sums inside the
  // nodes first sends 2 * 1/2.
  EXPECT_GT(planned.program(0).steps.size(), 1u);
  size_t plain = 0;
  while (plain < planned.size() && planned.program(plain).steps.size() > 1) ++plain;
  ASSERT_LT(plain, planned.size());
  EXPECT_GT(planned.seconds(plain) / planned.seconds(0), 1.5);
}

TEST(PlannedReductions, StayPlainInsideOneNode) {
  const auto planned = plan_reductions(two_levels(), Grid({.data = 4}), Axis::data, 1e9);
  EXPECT_EQ(planned.program(0).steps.size(), 1u);
  EXPECT_EQ(planned.program(0).steps.front().collective, Collective::all_reduce);
}

// The groups of ranks of all 47 programs together take over 100 MB here.
TEST(PlannedReductions, KeepNoGroupsOfRanks) {
  const auto allocated = [] {
    const auto info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  const Grid grid({.data = 32768});
  const size_t before = allocated();
  const auto planned = plan_reductions(two_levels(), grid, Axis::data, 1e9);
  EXPECT_GT(planned.size(), 40u);
  EXPECT_LT(allocated(), before + (16 << 20));
}

TEST(PlannedReductions, RefuseNodesThatEndWithinAnAxis) {
  EXPECT_USER_ERROR(plan_reductions(two_levels(), Grid({.x = 3, .data = 4}), Axis::data, 1e9),
                    "ends within an axis of grid 3x1x1x4");
}

}  // namespace
}  // namespace axonn
