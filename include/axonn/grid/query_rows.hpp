#pragma once

#include <array>
#include <cstdint>

#include "axonn/grid/shard_spec.hpp"

namespace axonn {

// The rows of queries of a sequence that rank `rank` of `ranks` attends: of 2 * ranks even parts,
// those numbered `rank` and 2 * ranks - 1 - rank. Under a causal mask a row sees the rows before
// it, so a pair from both ends has as many scores on every rank. Parts differ by at most one row;
// of a sequence shorter than 2 * ranks some are empty.
inline std::array<Range, 2> query_rows(int64_t sequence, int ranks, int rank) {
  return {even_part(sequence, 2 * ranks, rank), even_part(sequence, 2 * ranks, 2 * ranks - 1 - rank)};
}

// Rows of the largest part.
inline int64_t most_query_rows(int64_t sequence, int ranks) { return (sequence + 2 * ranks - 1) / (2 * ranks); }

}  // namespace axonn
