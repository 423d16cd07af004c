#include "axonn/checkpoint/cut.hpp"

#include <algorithm>

#include "axonn/core/join.hpp"

namespace axonn {

CheckpointCut CheckpointCut::over(const Grid& grid, AxisSet axes) {
  CheckpointCut cut;
  for (const Axis axis : grid.order())
    if (axes.contains(axis)) cut.axes.push_back(axis);
  return cut;
}

AxisSet CheckpointCut::axis_set() const {
  AxisSet set;
  for (const Axis axis : axes) set = set | axis;
  return set;
}

int CheckpointCut::member(const GridShape& shape, const Coordinate& at) const {
  int member = 0, stride = 1;
  for (const Axis axis : axes) {
    member += at[axis] * stride;
    stride *= shape[axis];
  }
  return member;
}

bool CheckpointCut::is_first(const Coordinate& at) const {
  return std::ranges::all_of(axes, [&](Axis axis) { return at[axis] == 0; });
}

BlockOwners CheckpointCut::owners(const GridShape& shape) const {
  return BlockOwners(static_cast<int>(shape.size(axis_set())), block);
}

std::string CheckpointCut::to_string() const { return join(axes, "+") + " in blocks of " + std::to_string(block); }

}  // namespace axonn
