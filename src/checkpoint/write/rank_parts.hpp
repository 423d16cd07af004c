#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "axonn/checkpoint/checkpoint.hpp"
#include "checkpoint/write/file_layout.hpp"

namespace axonn {

// One rank's elements of the tensors of one kind: those that the same axes replicate.
struct RankPart {
  // Ranges of the rank's shard of a tensor.
  struct Saved {
    size_t tensor = 0;
    std::vector<Range> in_shard;
  };
  std::vector<Saved> saved;           // wider types first
  std::vector<PartTensor> described;  // the same, then the padding
  int64_t padding = 0;                // bytes behind the tensors
  uint64_t xxh64 = 0;                 // when it is written
};

std::string place_name(const Coordinate& at);  // "x0-y0-z0", "x0-y0-z0-d1"

// The same on all ranks, which have the same tensors.
std::vector<AxisSet> kinds_of(std::span<const CheckpointTensor> tensors);

// By kind. `shares_file`: other ranks write to the same file.
std::vector<RankPart> rank_parts(std::span<const CheckpointTensor> tensors, const std::vector<AxisSet>& kinds,
                                 const GridShape& shape, const Coordinate& at, bool shares_file);

}  // namespace axonn
