#pragma once

#include <cstdint>

#include "axonn/core/names.hpp"

namespace axonn {

// Whether the ranks that have the same features of a decoder's residual stream, those along X,
// divide its rows among them: norms, dropout and sums of residuals are then computed once instead
// of on every rank, and the stream is kept once (docs/architecture/sequence.md). Changes rounding.
//
// automatic: unless these ranks send messages, in any group of the grid: norms exchange over Y,
// between the groups, so all ranks of the grid decide alike. A branch gathers its input once more
// in backward. For each element that moves, 15 fewer are read or written: that pays where an
// element moves in the time of 15 in memory, as between processes that share it, and between GPUs
// of a node, but not over a network of 1 Gbit/s.
enum class NormRows : uint8_t { automatic, on, off };

template <>
struct Names<NormRows> {
  static constexpr Named<NormRows> all[] = {
      {"auto", NormRows::automatic}, {"on", NormRows::on}, {"off", NormRows::off}};
};

}  // namespace axonn
