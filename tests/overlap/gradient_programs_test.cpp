// The reduction programs that may sum a grid's gradients.
#include "axonn/overlap/step/gradient_programs.hpp"

#include <gtest/gtest.h>

#include "axonn/perfmodel/reduction/reduction_synthesis.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

constexpr const char* kTwoLevels = "reduce-scatter:0-3,4-7/all-reduce:0+4,1+5,2+6,3+7/all-gather:0-3,4-7";
constexpr const char* kTwoLevelsBesideX =
    "reduce-scatter:0+2,4+6,1+3,5+7/all-reduce:0+4,2+6,1+5,3+7/all-gather:0+2,4+6,1+3,5+7";

std::vector<AxisSet> check(const std::string& text, const std::string& shape) {
  return check_gradient_programs(parse_gradient_programs(text), Grid(parse_grid_shape(shape)));
}

TEST(GradientPrograms, SumOverTheAxesWhoseGroupsTheyReduce) {
  const AxisSet data = Axis::data, both = {Axis::z, Axis::data}, z = Axis::z;
  EXPECT_EQ(check("ring", "2x1x2x2"), std::vector<AxisSet>());
  EXPECT_EQ(check(kTwoLevels, "1x1x1x8"), std::vector{data});
  EXPECT_EQ(check(kTwoLevelsBesideX, "2x1x1x4"), std::vector{data});
  EXPECT_EQ(check(kTwoLevels, "1x1x2x4"), std::vector{both});
  EXPECT_EQ(check("reduce-scatter:0+1,2+3,4+5,6+7/reduce-scatter:0+2,1+3,4+6,5+7", "1x1x4x2"), std::vector{z});
  EXPECT_EQ(check(std::string("reduce-scatter:0-7;") + kTwoLevels, "1x1x8x1"), (std::vector{z, both}));
  EXPECT_EQ(check(std::string(kTwoLevelsBesideX) + ";" + kTwoLevels, "1x1x2x4"), (std::vector{data, both}));
}

TEST(GradientPrograms, OfEverySynthesisAddInOneOrder) {
  const Grid grid({.data = 8});
  for (const char* matrix : {"[[2 4]]", "[[2 2 2]]"}) {
    const auto hierarchy = synthesis_hierarchy(parse_parallelism_matrix(matrix), std::vector{0});
    for (const auto& program : synthesize(hierarchy.sizes, {.length_limit = 4}))
      EXPECT_EQ(check_gradient_programs({lower(program, hierarchy)}, grid).size(), 1u);
  }
}

TEST(GradientPrograms, ThatDoNotSumThemAreRefused) {
  EXPECT_USER_ERROR(check("all-reduce:0-3", "1x1x1x8"), "does not sum gradients on grid 1x1x1x8",
                    "has not reduced group 0+1+2+3+4+5+6+7");
  EXPECT_USER_ERROR(check("all-reduce:0-15", "1x1x1x8"), "names rank 8, this job has 8");
  EXPECT_USER_ERROR(check("all-reduce:0-7", "2x1x1x4"), "ranks 0 and 1 are in different groups of the reduction");
  EXPECT_USER_ERROR(check("reduce-scatter:0-3,4-7/all-reduce:0+4,1+5,2+6,3+7", "1x1x1x8"), "after its last step");
  EXPECT_USER_ERROR(check("all-reduce:0-3,4-7/all-reduce:0-7", "1x1x1x8"), "a contribution would be counted twice");
  EXPECT_USER_ERROR(check("all-reduce:0+1,2+3,4+5,6+7", "1x1x2x4"), "over data, ", "; over z+data, ",
                    "; scattered over z, ", "(reduction 'ring' is for any grid)");
  EXPECT_USER_ERROR(check("reduce-scatter:0+1,2+3/all-reduce:0+2,1+3", "1x1x2x2"), "scattered over z, ",
                    "different groups of the reduction");
  EXPECT_USER_ERROR(check("reduce-scatter:0+1,2+3/reduce-scatter:0+2/reduce-scatter:1+3", "1x1x4x1"),
                    "scattered over z, its last step is no reduce-scatter in which rank 0 takes part");
  EXPECT_USER_ERROR(check("all-reduce:0-7;all-reduce:0-7", "1x1x1x8"), "two programs sum over data");
  EXPECT_USER_ERROR(check("all-reduc:0-7", "1x1x1x8"), "did you mean 'all-reduce'?");
  EXPECT_USER_ERROR(check("rign", "1x1x1x8"), "has no ':'");
}

// Rank 0 would add ((0+1) + (2+3) + (4+5) + (6+7)), and rank 1 the same terms in another order.
TEST(GradientPrograms, ThatWouldLetReplicasDriftApartAreRefused) {
  EXPECT_EQ(check("all-reduce:0+1,2+3,4+5,6+7/all-reduce:0+2+4+6,1+3+5+7", "1x1x1x8").size(), 1u);
  EXPECT_USER_ERROR(check("all-reduce:0+1,2+3,4+5,6+7/all-reduce:0+2+4+6,3+1+5+7", "1x1x1x8"), "ranks 0 and 1",
                    "different orders");
}

}  // namespace
}  // namespace axonn
