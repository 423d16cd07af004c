#include "axonn/perfmodel/placement/parallelism_matrix.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"
#include "axonn/grid/grid.hpp"
#include "perfmodel/p2_tables.hpp"

namespace axonn {
namespace {

using Ints = std::vector<int>;
using testing_support::parallelism_matrices;

std::string refusal(auto&& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.sentence();
  }
  return "no error";
}

std::set<std::string> texts(const std::vector<ParallelismMatrix>& matrices) {
  std::set<std::string> all;
  for (const auto& matrix : matrices) all.insert(matrix.to_string());
  return all;
}

TEST(ParallelismMatrices, AreThe104OfThePapersAppendix) {
  const auto groups = testing_support::p2_groups();
  if (groups.empty()) GTEST_SKIP() << "the paper's tables are not beside this checkout";
  size_t printed = 0;
  for (const auto& rows : groups) {
    std::set<std::string> expected;
    for (const auto& row : rows) expected.insert(row.matrix.to_string());
    printed += rows.size();
    const auto found = parallelism_matrices(rows[0].levels, rows[0].axes);
    EXPECT_EQ(found.size(), rows.size());
    EXPECT_EQ(texts(found), expected) << rows[0].matrix.to_string();
  }
  EXPECT_EQ(printed, 104u);
  EXPECT_EQ(groups.size(), 42u);
}

TEST(ParallelismMatrices, AreWhatAnOdometerOverAllFactorsFinds) {
  const std::vector<std::pair<Ints, Ints>> cases = {
      {{4}, {4}},       {{6}, {2, 3}},        {{2, 6}, {3, 4}},       {{3, 2, 2}, {4, 3}},
      {{2, 8}, {4, 4}}, {{5, 2}, {1, 10, 1}}, {{2, 2, 2}, {2, 4, 1}}, {{7, 1, 3}, {21}}};
  for (const auto& [levels, axes] : cases) {
    ParallelismMatrix matrix = {.axes = static_cast<int>(axes.size()), .levels = static_cast<int>(levels.size())};
    matrix.factors.assign(levels.size() * axes.size(), 1);
    std::set<std::string> expected;
    for (size_t digit = 0; digit < matrix.factors.size();) {
      bool fits = true;
      for (size_t axis = 0; axis < axes.size(); ++axis)
        fits = fits && matrix.axis_size(static_cast<int>(axis)) == axes[axis];
      for (size_t level = 0; level < levels.size(); ++level)
        fits = fits && matrix.level_size(static_cast<int>(level)) == levels[level];
      if (fits) expected.insert(matrix.to_string());
      for (digit = 0; digit < matrix.factors.size() && ++matrix.factors[digit] > levels[digit % levels.size()]; ++digit)
        matrix.factors[digit] = 1;
    }
    const auto found = parallelism_matrices(levels, axes);
    EXPECT_EQ(found.size(), expected.size());
    EXPECT_EQ(texts(found), expected);
  }
}

TEST(ParallelismMatrix, PutsDevicesAsInFigure2) {
  const auto device = [](const char* text, Ints at) { return parse_parallelism_matrix(text).device(at); };
  // Levels rack, server, CPU, GPU; axes data and shards. Figure 2b: each CPU is a replica, its GPUs
  // are the shards.
  EXPECT_EQ(device("[[1 2 2 1] [1 1 1 4]]", {3, 2}), 14);
  // Figure 2d, [[1 1 2 2] [1 2 1 2]]: shards 0, 1 on neighbours of one CPU, shards 2, 3 on the
  // other server.
  EXPECT_EQ(device("[[1 1 2 2] [1 2 1 2]]", {0, 1}), 1);
  EXPECT_EQ(device("[[1 1 2 2] [1 2 1 2]]", {0, 2}), 8);
  EXPECT_EQ(device("[[1 1 2 2] [1 2 1 2]]", {1, 0}), 2);
  EXPECT_EQ(device("[[1 1 2 2] [1 2 1 2]]", {2, 0}), 4);
}

TEST(ParallelismMatrix, MapsPositionsToDevicesOneToOne) {
  for (const auto& [levels, axes] :
       std::vector<std::pair<Ints, Ints>>{{{4, 6}, {2, 3, 4}}, {{2, 3, 4}, {6, 4}}, {{2, 2, 2}, {2, 2, 2}}})
    for (const auto& matrix : parallelism_matrices(levels, axes)) {
      auto devices = matrix.devices_of_positions();
      Ints at(axes.size(), 0);
      for (const int device : devices) {
        ASSERT_EQ(matrix.device(at), device) << matrix.to_string();
        for (size_t axis = axes.size(); axis-- > 0 && ++at[axis] == axes[axis];) at[axis] = 0;
      }
      std::ranges::sort(devices);
      Ints all(devices.size());
      std::iota(all.begin(), all.end(), 0);
      ASSERT_EQ(devices, all) << matrix.to_string();
    }
}

TEST(ParallelismMatrix, IsAPlacementOfAGrid) {
  const auto matrix = parse_parallelism_matrix("2x1,1x2,1x1,2x2");  // data, z, y, x on 4 nodes of 4
  const Grid grid({.x = 4, .y = 1, .z = 2, .data = 2}, kDefaultOrder, matrix.devices_of_positions());
  for (int rank = 0; rank < 16; ++rank) {
    const Coordinate at = grid.coordinate(rank);
    EXPECT_EQ(matrix.device(Ints{at.data, at.z, at.y, at.x}), rank);
  }
  EXPECT_EQ(grid.group(0, Axis::z).ranks, (Ints{0, 2}));  // Z inside the node
  EXPECT_EQ(grid.group(0, Axis::data).ranks, (Ints{0, 8}));
}

TEST(ParallelismMatrix, ReadsBothOfItsTexts) {
  for (const auto& matrix : parallelism_matrices(Ints{4, 6}, Ints{2, 12}))
    EXPECT_EQ(parse_parallelism_matrix(matrix.to_string()), matrix);
  EXPECT_EQ(parse_parallelism_matrix("2x1,1x16").to_string(), "[[2 1] [1 16]]");
  EXPECT_EQ(parse_parallelism_matrix("[2 16]").to_string(), "[[2 16]]");
  EXPECT_EQ(parse_parallelism_matrix("8").to_string(), "[[8]]");
  for (const char* text : {"", "[]", "[[2 1] [1]]", "[[2 1]", "2x", "x2", "2,,1", "2xx1", "a", "0x2", "-1", "[[[2]]]",
                           "99999999999", "2x1,3", "]2["})
    EXPECT_NE(refusal([&] { parse_parallelism_matrix(text); }).find(std::string("or 2x1,1x16, got '") + text + "'"),
              std::string::npos)
        << text;
  EXPECT_NE(refusal([] { parse_parallelism_matrix("65536x65536"); }), "no error");
}

TEST(ParallelismMatrix, RefusesPositionsThatAreNotOnItsAxes) {
  const auto matrix = parse_parallelism_matrix("2x1,1x16");
  EXPECT_EQ(refusal([&] { matrix.device(Ints{2, 0}); }), "position [2 0] is not on the axes of [[2 1] [1 16]]");
  EXPECT_NE(refusal([&] { matrix.device(Ints{-1, 0}); }), "no error");
  EXPECT_NE(refusal([&] { matrix.device(Ints{1}); }), "no error");
}

TEST(ParallelismMatrices, RefuseSizesThatDoNotFit) {
  EXPECT_EQ(refusal([] { parallelism_matrices(Ints{2, 16}, Ints{3, 8}); }),
            "axes [3 8] are 24 positions, levels [2 16] are 32 devices; need the same number");
  EXPECT_EQ(refusal([] { parallelism_matrices(Ints{2, 0}, Ints{2}); }),
            "sizes of levels must be at least 1, got [2 0]");
  EXPECT_EQ(refusal([] { parallelism_matrices(Ints{65536, 65536}, Ints{2}); }),
            "the product of the levels [65536 65536] is more than 2147483647 devices");
  EXPECT_NE(refusal([] { parallelism_matrices(Ints{}, Ints{}); }), "no error");
  EXPECT_NE(refusal([] { num_devices({}); }), "no error");
  EXPECT_EQ(num_devices({{"node", 4}, {"gpu", 16}}), 64);
}

}  // namespace
}  // namespace axonn
