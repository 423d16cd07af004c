#pragma once

#include <cstdint>

namespace axonn::coconet {

// A cut of a sliced dim: the rank that owns each index. No result depends on it.
struct Cut {
  int64_t block = 0;   // 0: contiguous
  int64_t offset = 0;  // the place of index 0 in its block

  // Rank r of R owns the indices from extent * r / R, rounded down, to those of r + 1.
  static Cut contiguous() { return {}; }
  // Index i belongs to rank (i + offset) / block % R, as in an arena.
  static Cut cyclic(int64_t block, int64_t offset = 0) { return {block, offset}; }

  int owner(int64_t index, int64_t extent, int ranks) const;
};

}  // namespace axonn::coconet
