#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "axonn/grid/grid.hpp"
#include "axonn/perfmodel/placement/parallelism_matrix.hpp"

namespace axonn {

// How the levels of a machine are divided among the axes of a grid: a parallelism matrix with the rows data, z, y, x, seen as a grid a column.
// levels[0] is the innermost (in a node); the product over the levels is the grid, the product of a level's axes is its size.
struct AxisPlacement {
  std::vector<GridShape> levels;

  GridShape shape() const;
  ParallelismMatrix matrix() const;
  std::string to_string() const;  // innermost first, axes of size 1 left out: "z4 | x2 z4"; "-" for a level of one unit
  bool operator==(const AxisPlacement&) const = default;
};

// All of them for a grid and the sizes of the levels, innermost first, in the order of the matrices. UserError when the products differ.
std::vector<AxisPlacement> placements(const GridShape& shape, std::span<const int64_t> level_sizes);

// The one that an axis order means for ranks numbered node by node. Nothing where a level ends within an axis that it does not divide.
std::optional<AxisPlacement> placement_of_order(const GridShape& shape, const AxisOrder& order, std::span<const int64_t> level_sizes);

// An axis order that means this placement, if there is one; without one, rank_map() says which rank is where.
std::optional<AxisOrder> order_of_placement(const AxisPlacement& placement);

// For Grid(shape, kDefaultOrder, rank_map(...)): the rank of every grid index, ranks being numbered through the innermost level first,
// within a level with X innermost.
Placement rank_map(const AxisPlacement& placement);

}  // namespace axonn
