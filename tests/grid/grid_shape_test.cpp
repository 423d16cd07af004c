#include "axonn/grid/grid_shape.hpp"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

std::string refusal(auto&& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.sentence();
  }
  return "no error";
}

// The number of ways to write n as an ordered product of four, from its prime factorisation: the
// product of C(e + 3, 3).
int64_t ordered_products_of_four(int64_t n) {
  int64_t ways = 1;
  for (int64_t p = 2; n > 1; ++p) {
    int64_t e = 0;
    for (; n % p == 0; n /= p) ++e;
    ways *= (e + 1) * (e + 2) * (e + 3) / 6;
  }
  return ways;
}

TEST(Factorisations, AreAllOfThemInOrderForEveryCountUpTo4096) {
  for (int64_t ranks = 1; ranks <= 4096; ++ranks) {
    const auto shapes = factorisations(ranks);
    ASSERT_EQ(static_cast<int64_t>(shapes.size()), ordered_products_of_four(ranks)) << ranks;
    ASSERT_TRUE(std::ranges::all_of(shapes, [&](const GridShape& s) { return s.ranks() == ranks; })) << ranks;
    const auto key = [](const GridShape& s) { return std::array{s.x, s.y, s.z, s.data}; };
    ASSERT_TRUE(std::ranges::is_sorted(shapes, {}, key)) << ranks;
    ASSERT_TRUE(std::ranges::adjacent_find(shapes) == shapes.end()) << ranks;
  }
}

TEST(CheckShape, ListsEveryGridOfTheRanksThatThereAre) {
  EXPECT_EQ(refusal([] { check_shape({.x = 2, .y = 2, .z = 2}, 4); }),
            "grid 2x2x2x1 needs 8 ranks, this job has 4. Grids of 4: 1x1x1x4, 1x1x2x2, 1x1x4x1, 1x2x1x2, 1x2x2x1, "
            "1x4x1x1, 2x1x1x2, "
            "2x1x2x1, 2x2x1x1, 4x1x1x1");
  const std::string many = refusal([] { check_shape({.x = 3}, 64); });
  for (const GridShape& shape : factorisations(64))
    EXPECT_NE(many.find(shape.to_string()), std::string::npos) << shape.to_string();
}

TEST(CheckShape, ListsTheFactorsWhereTheGridsAreTooMany) {
  EXPECT_EQ(refusal([] { check_shape({.x = 3, .y = 5}, 4096); }),
            "grid 3x5x1x1 needs 15 ranks, this job has 4096. There are 455 grids of 4096, from 1x1x1x4096 to "
            "4096x1x1x1; its factors: "
            "1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096");
}

TEST(CheckShape, RefusesAxesBelowOne) {
  EXPECT_EQ(refusal([] { check_shape({.x = 2, .z = 0}, 2); }),
            "grid 2x1x0x1 has axis z = 0, every axis must be at least 1");
  EXPECT_NE(refusal([] { check_shape({.x = -2, .y = -1}, 2); }), "no error");
  check_shape({.x = 3, .y = 2}, 6);
}

TEST(CheckShape, SurvivesProductsThatOverflow) {
  EXPECT_NE(refusal([] { check_shape({.x = 2147483647, .y = 2147483647, .z = 2147483647, .data = 8}, 4); }),
            "no error");
}

TEST(ParseGridShape, ReadsTheTextForm) {
  EXPECT_EQ(parse_grid_shape("2x1x3x4"), (GridShape{.x = 2, .y = 1, .z = 3, .data = 4}));
  EXPECT_EQ(parse_grid_shape("2x5"), (GridShape{.x = 2, .y = 5}));
  EXPECT_EQ(parse_grid_shape("16"), (GridShape{.x = 16}));
  for (const GridShape& shape : factorisations(60)) EXPECT_EQ(parse_grid_shape(shape.to_string()), shape);
}

TEST(ParseGridShape, RefusesEverythingElseAndShowsTheForm) {
  for (const char* text : {"", "x", "2x", "x2", "0x1", "-1", "+2", "2x1x1x1x1", "2x1x1x1x", "2*2", "2 x 2", "2.5", "a",
                           "99999999999", "1x1x1x1 "}) {
    const std::string sentence = refusal([&] { parse_grid_shape(text); });
    EXPECT_NE(sentence.find("such as 2x1x2x1, got '" + std::string(text) + "'"), std::string::npos)
        << text << ": " << sentence;
  }
}

TEST(AxisSet, IsASet) {
  constexpr AxisSet set = {Axis::z, Axis::data};
  EXPECT_TRUE(set.contains(Axis::z) && set.contains(Axis::data) && !set.contains(Axis::x) && !set.contains(Axis::y));
  EXPECT_EQ(set, (AxisSet{Axis::data, Axis::z, Axis::z}));
  EXPECT_EQ(set, AxisSet(Axis::z) | Axis::data);
  EXPECT_EQ(set.to_string(), "z+data");
  EXPECT_EQ(AxisSet{}.to_string(), "none");
  EXPECT_TRUE(AxisSet{}.empty());
  EXPECT_EQ((GridShape{.x = 2, .y = 3, .z = 5, .data = 7}.size(set)), 35);
  EXPECT_EQ((GridShape{.x = 2, .y = 3, .z = 5, .data = 7}.size(AxisSet{})), 1);
}

}  // namespace
}  // namespace axonn
