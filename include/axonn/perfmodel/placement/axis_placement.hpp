#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "axonn/grid/grid.hpp"
#include "axonn/perfmodel/placement/parallelism_matrix.hpp"

namespace axonn {

// How the levels of a machine are divided among the axes of a grid: a parallelism matrix with the
// rows data, z, y, x, stored as one grid shape per column. levels[0] is the innermost (within a
// node). The product over the levels is the grid; the product of a level's axes is its size.
struct AxisPlacement {
  std::vector<GridShape> levels;

  GridShape shape() const;
  ParallelismMatrix matrix() const;
  std::string to_string() const;  // innermost first, without axes of size 1: "z4 | x2 z4"; "-": a level of one unit
  bool operator==(const AxisPlacement&) const = default;
};

// All placements of a grid on levels of these sizes (innermost first), in the order of
// visit_parallelism_matrices(). UserError when the products differ.
std::vector<AxisPlacement> placements(const GridShape& shape, std::span<const int64_t> level_sizes);
int64_t count_placements(const GridShape& shape, std::span<const int64_t> level_sizes);  // how many those are

// The placement that an axis order gives to ranks numbered node by node. Nothing if a level ends
// within an axis that it does not divide.
std::optional<AxisPlacement> placement_of_order(const GridShape& shape, const AxisOrder& order,
                                                std::span<const int64_t> level_sizes);

// An axis order that gives this placement, if there is one. Otherwise rank_map() maps the ranks.
std::optional<AxisOrder> order_of_placement(const AxisPlacement& placement);

// For Grid(shape, kDefaultOrder, rank_map(...)): the rank of every grid index. Ranks are numbered
// through the innermost level first; within a level X varies fastest.
Placement rank_map(const AxisPlacement& placement);

}  // namespace axonn
