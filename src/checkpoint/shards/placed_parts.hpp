#pragma once

#include <cstdint>
#include <vector>

#include "axonn/checkpoint/checkpoint.hpp"

namespace axonn {

// A contiguous part of the global tensor and its offset in a buffer.
struct PlacedPart {
  int64_t global = 0;
  int64_t offset = 0;
  int64_t size = 0;
};

// Elements to copy from a stored range to a shard; offsets are relative to each.
struct PartCopy {
  int64_t from = 0;
  int64_t to = 0;
  int64_t size = 0;
};

// Both ascend. Parts of a file are consecutive, as padding is not written: they are a rank's of
// `range` of its block. `place` is that of the range in the arena, only with a cut.
std::vector<PlacedPart> placed_in_file(const CheckpointReader::Description& tensor, const GridShape& shape,
                                       const Coordinate& at, Range range, int64_t place);
std::vector<PlacedPart> placed_in_shard(const CheckpointTensor& tensor, const GridShape& shape, const Coordinate& at);
std::vector<PartCopy> intersect(const std::vector<PlacedPart>& from, const std::vector<PlacedPart>& to);

}  // namespace axonn
