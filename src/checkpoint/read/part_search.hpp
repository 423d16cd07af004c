#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "checkpoint/manifest/manifest.hpp"

namespace axonn {

// Finds the parts of a checkpoint that may hold elements of one rank's shards. Tensors with the
// same specs share one search, so it takes no longer for a checkpoint of many tensors.
class PartSearch {
 public:
  // For the rank at `at` of a grid of `shape`. The manifest outlives it.
  PartSearch(const Manifest& manifest, const GridShape& shape, const Coordinate& at);

  // Parts that may hold elements of tensor `index` of the manifest, which has the same shape and
  // type there. Ascending; the same on all ranks that hold the same elements, or have a part of the
  // same range.
  std::vector<size_t> holding(size_t index, const CheckpointTensor& wanted);
  // Only the part that this rank would have written, or none where it would have written nothing,
  // if the tensor is cut and lies in the arena as it did.
  std::optional<std::vector<size_t>> own_part(size_t index, const CheckpointTensor& wanted) const;

 private:
  struct Searched {
    ShardSpec saved, wanted;
    AxisSet replicated;
    std::vector<size_t> parts;
  };

  std::optional<size_t> part_of(AxisSet replicated, Coordinate at) const;
  std::vector<size_t> overlapping(const ShardSpec& saved, const ShardSpec& wanted,
                                  const std::vector<size_t>& parts) const;

  const Manifest& manifest_;
  GridShape shape_;
  Coordinate at_;
  std::map<uint8_t, std::vector<size_t>> by_axes_;               // parts, by the axes that replicate their tensors
  std::array<std::unordered_map<int64_t, size_t>, 16> part_of_;  // by these axes and the rank that wrote it
  std::vector<std::vector<size_t>> by_tensor_;                   // formats 1 to 3
  std::vector<Searched> searched_;
};

}  // namespace axonn
