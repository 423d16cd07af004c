#include "axonn/grid/grid.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr std::array<int, 7> kLargeCounts = {384, 720, 1000, 1024, 2048, 3000, 4096};

std::vector<AxisSet> all_axis_sets() {
  std::vector<AxisSet> sets;
  for (unsigned bits = 0; bits < 16; ++bits) {
    AxisSet set;
    for (const Axis axis : kAxes)
      if ((bits >> static_cast<unsigned>(axis) & 1u) != 0) set = set | axis;
    sets.push_back(set);
  }
  return sets;
}

Placement shuffled(int ranks, unsigned seed) {
  Placement placement(static_cast<size_t>(ranks));
  std::iota(placement.begin(), placement.end(), 0);
  std::ranges::shuffle(placement, std::mt19937(seed));
  return placement;
}

// Every rank is in exactly one group, and the members of a group agree outside `axes`.
void expect_groups_partition(const Grid& grid, AxisSet axes) {
  const auto groups = grid.groups(axes);
  ASSERT_EQ(static_cast<int64_t>(groups.size()) * grid.shape().size(axes), grid.ranks());
  std::vector<char> seen(static_cast<size_t>(grid.ranks()), 0);
  for (const Group& group : groups) {
    ASSERT_EQ(group.size(), grid.shape().size(axes));
    const Coordinate first = grid.coordinate(group.ranks[0]);
    for (const int rank : group.ranks) {
      ASSERT_EQ(std::exchange(seen.at(static_cast<size_t>(rank)), 1), 0);
      const Coordinate at = grid.coordinate(rank);
      for (const Axis axis : kAxes) ASSERT_TRUE(axes.contains(axis) || at[axis] == first[axis]);
    }
  }
}

void expect_coordinates_round_trip(const Grid& grid) {
  for (int rank = 0; rank < grid.ranks(); ++rank) {
    const Coordinate at = grid.coordinate(rank);
    for (const Axis axis : kAxes) ASSERT_TRUE(at[axis] >= 0 && at[axis] < grid.shape()[axis]);
    ASSERT_EQ(grid.rank(at), rank);
  }
}

std::vector<AxisOrder> all_orders() {
  std::vector<AxisOrder> orders;
  AxisOrder order = kDefaultOrder;
  do orders.push_back(order);
  while (std::ranges::next_permutation(order).found);
  return orders;
}

TEST(Grid, GroupsPartitionTheRanksOfEveryFactorisation) {
  const auto sets = all_axis_sets();
  unsigned turn = 0;
  for (int ranks = 1; ranks <= 256; ++ranks)
    for (const GridShape& shape : factorisations(ranks)) {
      const bool every_set = ranks <= 64;  // otherwise one set per grid, in turn
      const Grid grid(shape);
      for (size_t i = 0; i < (every_set ? sets.size() : 1); ++i)
        ASSERT_NO_FATAL_FAILURE(expect_groups_partition(grid, sets[++turn % sets.size()])) << shape.to_string();
    }
}

TEST(Grid, CoordinatesRoundTripOnEveryFactorisation) {
  for (int ranks = 1; ranks <= 256; ++ranks)
    for (const GridShape& shape : factorisations(ranks))
      ASSERT_NO_FATAL_FAILURE(expect_coordinates_round_trip(Grid(shape))) << shape.to_string();
  for (const int ranks : {720, 1024, 3000})
    for (const GridShape& shape : factorisations(ranks))
      ASSERT_NO_FATAL_FAILURE(expect_coordinates_round_trip(Grid(shape))) << shape.to_string();
}

TEST(Grid, HoldsAtThousandsOfRanksUnderAnyOrderAndPlacement) {
  const auto sets = all_axis_sets();
  const auto orders = all_orders();
  ASSERT_EQ(orders.size(), 24u);
  unsigned turn = 0;
  for (const int ranks : kLargeCounts)
    for (const GridShape& shape : factorisations(ranks)) {
      ++turn;
      const Grid grid(shape, orders[turn % orders.size()], turn % 3 == 0 ? Placement{} : shuffled(ranks, turn));
      ASSERT_NO_FATAL_FAILURE(expect_groups_partition(grid, sets[turn * 7 % sets.size()])) << shape.to_string();
      for (int rank = static_cast<int>(turn) % 13; rank < ranks; rank += 13)
        ASSERT_EQ(grid.rank(grid.coordinate(rank)), rank);
    }
}

TEST(Grid, RoundTripsUnderEveryAxisOrderWithShuffledPlacement) {
  for (const AxisOrder& order : all_orders())
    for (const GridShape& shape : factorisations(24)) {
      const Grid grid(shape, order, shuffled(24, 5));
      ASSERT_NO_FATAL_FAILURE(expect_coordinates_round_trip(grid));
      for (const AxisSet axes : all_axis_sets()) ASSERT_NO_FATAL_FAILURE(expect_groups_partition(grid, axes));
    }
}

TEST(Grid, GroupOfARankIsTheOneAmongAllGroupsThatHoldsIt) {
  const Grid grid({.x = 2, .y = 3, .z = 2, .data = 2}, parse_axis_order("zdyx"), shuffled(24, 11));
  for (const AxisSet axes : all_axis_sets())
    for (const Group& whole : grid.groups(axes))
      for (int i = 0; i < whole.size(); ++i) {
        const Group mine = grid.group(whole.ranks[static_cast<size_t>(i)], axes);
        EXPECT_EQ(mine.ranks, whole.ranks);
        EXPECT_EQ(mine.index, i);
        EXPECT_EQ(mine.axes, axes);
      }
}

TEST(Grid, HasXInnermostByDefault) {
  const Grid grid({.x = 2, .y = 3, .z = 2, .data = 2});
  EXPECT_EQ(grid.coordinate(1), (Coordinate{.x = 1}));
  EXPECT_EQ(grid.coordinate(2), (Coordinate{.y = 1}));
  EXPECT_EQ(grid.coordinate(6), (Coordinate{.z = 1}));
  EXPECT_EQ(grid.coordinate(12), (Coordinate{.data = 1}));
  EXPECT_EQ(grid.group(0, Axis::x).ranks, (std::vector<int>{0, 1}));
  EXPECT_EQ(grid.group(7, Axis::y).ranks, (std::vector<int>{7, 9, 11}));
  EXPECT_EQ(grid.group(1, AxisSet({Axis::z, Axis::data})).ranks, (std::vector<int>{1, 7, 13, 19}));
}

TEST(Grid, MembersComeInTheOrderOfTheAxes) {
  const Grid grid({.x = 2, .y = 1, .z = 2, .data = 2}, parse_axis_order("dzxy"));
  EXPECT_EQ(grid.group(0, AxisSet({Axis::z, Axis::data})).ranks, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(grid.coordinate(1), (Coordinate{.data = 1}));
  EXPECT_EQ(grid.coordinate(4), (Coordinate{.x = 1}));
}

TEST(Grid, APlacementSaysWhereAnIndexLives) {
  const Grid grid({.x = 2, .z = 2}, kDefaultOrder, {3, 1, 0, 2});
  EXPECT_EQ(grid.rank({.x = 0, .z = 0}), 3);
  EXPECT_EQ(grid.rank({.x = 1, .z = 1}), 2);
  EXPECT_EQ(grid.group(0, Axis::x).ranks, (std::vector<int>{0, 2}));
  EXPECT_EQ(grid.group(2, Axis::x).index, 1);
}

TEST(Grid, RefusesWhatIsNoGrid) {
  const GridShape four = {.x = 2, .y = 2};
  EXPECT_THROW(Grid({.x = 0}), UserError);
  EXPECT_THROW(Grid(four, {Axis::x, Axis::x, Axis::z, Axis::data}), UserError);
  EXPECT_THROW(Grid(four, kDefaultOrder, {0, 1, 2}), UserError);
  EXPECT_THROW(Grid(four, kDefaultOrder, {0, 1, 2, 4}), UserError);
  EXPECT_THROW(Grid(four, kDefaultOrder, {0, 1, 2, -1}), UserError);
  EXPECT_THROW(Grid(four, kDefaultOrder, {0, 1, 1, 2}), UserError);
  EXPECT_THROW(Grid({.x = 1 << 20, .y = 1 << 20}), UserError);
  EXPECT_THROW(Grid(four).coordinate(4), UserError);
  EXPECT_THROW(Grid(four).group(-1, Axis::x), UserError);
  EXPECT_THROW(Grid(four).rank({.x = 2}), UserError);
}

TEST(AxisOrder, IsTheFourLettersEachOnce) {
  EXPECT_EQ(parse_axis_order("xyzd"), kDefaultOrder);
  EXPECT_EQ(parse_axis_order("dzyx"), (AxisOrder{Axis::data, Axis::z, Axis::y, Axis::x}));
  for (const char* text : {"", "xyz", "xyzz", "xyzdx", "xyza", "XYZD"})
    EXPECT_THROW(parse_axis_order(text), UserError) << text;
}

TEST(Coordinate, HasAText) { EXPECT_EQ((Coordinate{.y = 1, .data = 3}.to_string()), "x0 y1 z0 d3"); }

}  // namespace
}  // namespace axonn
