#pragma once

#include <algorithm>
#include <cstdint>

#include "axonn/grid/grid.hpp"

namespace axonn {

// Ranks that differ in Z or data see different rows of a batch, or other tokens of the same rows
// (grid/context_ring.hpp). Ranks that differ only in X or Y see the same.
inline constexpr AxisSet kRowAxes = {Axis::z, Axis::data};

// A rank's share of the rows of a batch.
struct RowShare {
  int64_t groups = 1;  // number of different shares: z * data / context
  int64_t mine = 0;    // this rank's share, from 0

  // Rows per rank in the next round, when `left` rows remain in total and a rank takes at most
  // `most` at a time. The number is equal on all ranks, so the last rows may lie past the end.
  int64_t rows(int64_t left, int64_t most) const { return std::min(most, (left + groups - 1) / groups); }
};

// Over how many shares the grid divides whole rows. `context` neighbours along Z have the same
// rows; it divides z.
inline int64_t row_groups(const GridShape& shape, int64_t context = 1) { return shape.size(kRowAxes) / context; }

inline RowShare row_share(const GridShape& shape, const Coordinate& at, int64_t context = 1) {
  return {.groups = row_groups(shape, context), .mine = (int64_t{at.data} * shape.z + at.z) / context};
}

}  // namespace axonn
