#pragma once

#include <algorithm>
#include <cstdint>

#include "axonn/grid/grid.hpp"

namespace axonn {

// Ranks that differ in Z or data see different rows of a batch. Ranks that differ only in X or Y
// see the same rows.
inline constexpr AxisSet kRowAxes = {Axis::z, Axis::data};

// A rank's share of the rows of a batch.
struct RowShare {
  int64_t groups = 1;  // number of different shares: z * data
  int64_t mine = 0;    // this rank's share, from 0

  // Rows per rank in the next round, when `left` rows remain in total and a rank takes at most
  // `most` at a time. The number is equal on all ranks, so the last rows may lie past the end.
  int64_t rows(int64_t left, int64_t most) const { return std::min(most, (left + groups - 1) / groups); }
};

inline RowShare row_share(const GridShape& shape, const Coordinate& at) {
  return {.groups = int64_t{shape.z} * shape.data, .mine = int64_t{at.data} * shape.z + at.z};
}

}  // namespace axonn
