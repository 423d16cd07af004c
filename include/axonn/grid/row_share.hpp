#pragma once

#include <algorithm>
#include <cstdint>

#include "axonn/grid/grid.hpp"

namespace axonn {

// Ranks that differ in Z or data see different rows of a batch; those that differ only in X or Y see the same ones.
inline constexpr AxisSet kRowAxes = {Axis::z, Axis::data};

// Which rows are a rank's.
struct RowShare {
  int64_t groups = 1;  // of ranks with rows of their own: z * data
  int64_t mine = 0;    // this rank's, from 0

  // Rows of a rank in the next round, when `left` of all are left and a rank takes `most` at a time: every rank as many as the others, so
  // the last ones may lie past the end.
  int64_t rows(int64_t left, int64_t most) const { return std::min(most, (left + groups - 1) / groups); }
};

inline RowShare row_share(const GridShape& shape, const Coordinate& at) {
  return {.groups = int64_t{shape.z} * shape.data, .mine = int64_t{at.data} * shape.z + at.z};
}

}  // namespace axonn
