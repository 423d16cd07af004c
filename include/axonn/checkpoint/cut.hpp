#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "axonn/grid/block_owners.hpp"
#include "axonn/grid/grid.hpp"

namespace axonn {

// How a tensor's stored range is cut over ranks that would otherwise all hold it. The ranks that
// differ only in `axes` form a group; each keeps the elements that BlockOwners gives it by their
// place in the arena. So an optimizer's state takes 1/R of the memory on each of R ranks.
struct CheckpointCut {
  std::vector<Axis> axes;  // innermost first: they number the members of the group
  int64_t block = BlockOwners::kBlock;

  // Over these axes in the grid's order. So member() is the rank's index in Grid::group().
  static CheckpointCut over(const Grid& grid, AxisSet axes);

  AxisSet axis_set() const;
  int member(const GridShape& shape, const Coordinate& at) const;
  bool is_first(const Coordinate& at) const;  // member 0 of its group
  BlockOwners owners(const GridShape& shape) const;
  std::string to_string() const;  // "z+data in blocks of 4096"
  bool operator==(const CheckpointCut&) const = default;
};

}  // namespace axonn
