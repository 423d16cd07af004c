#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "axonn/perfmodel/machine/machine.hpp"

// Latencies of rings and trees, by the hops of the machine's levels.
namespace axonn {

inline constexpr double kGiga = 1e9;

// Latency of a ring's hops within nodes and between them. A hop that does not occur may be
// infinite.
inline double hops_seconds(int64_t within, int64_t between, double intra, double inter) {
  return (within > 0 ? static_cast<double>(within) * intra : 0) +
         (between > 0 ? static_cast<double>(between) * inter : 0);
}

// The same of a ring with `inside` ranks per node.
inline double ring_latency(int64_t size, int64_t inside, double intra, double inter) {
  const int64_t nodes = size / std::max<int64_t>(inside, 1);
  return hops_seconds(size - nodes, nodes - 1, intra, inter);
}

// The hop of a level with protocol LL128; infinite if there is none.
inline double ll128_hop(const MachineLevel& level) {
  return level.ll128_latency_seconds > 0 ? level.ll128_latency_seconds : std::numeric_limits<double>::infinity();
}

// NCCL's tuning table: trees reach 92% of a link, with LL128's 120 bytes of 128.
inline constexpr double kTreeShare = 0.92 * 120 / 128;

// A hop of the level's trees; infinite if there are none.
inline double tree_hop(const MachineLevel& level) {
  return level.tree_latency_seconds > 0 ? level.tree_latency_seconds : std::numeric_limits<double>::infinity();
}

// Hops of a binary tree of so many nodes, from a leaf to the root.
inline int64_t tree_depth(int64_t nodes) { return std::bit_width(static_cast<uint64_t>(nodes - 1)); }

// Latency of trees over nodes with a chain of `inside` ranks each: up and down.
inline double tree_latency(int64_t size, int64_t inside, double intra, double inter) {
  const int64_t nodes = size / std::max<int64_t>(inside, 1);
  return 2 * hops_seconds(inside - 1, tree_depth(nodes), intra, inter);
}

}  // namespace axonn
