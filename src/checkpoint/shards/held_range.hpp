#pragma once

#include <optional>
#include <vector>

#include "axonn/checkpoint/checkpoint.hpp"

namespace axonn {

// The axes along which all ranks hold the same elements of a tensor, or of their part of its cut.
AxisSet replicated_axes(const ShardSpec& spec, const std::optional<CheckpointCut>& cut);

// One rank's part of a range of a flattened block: all of it, or its own blocks when the tensor is
// cut. The elements that it holds are consecutive in its shard.
class HeldRange {
 public:
  // `offset` is the place of range.begin in the arena. It has no meaning without a cut.
  HeldRange(const std::optional<CheckpointCut>& cut, const GridShape& shape, const Coordinate& at, Range range,
            int64_t offset);

  // How many elements of [range.begin, end) the rank holds: the place in its shard of the next one.
  // `end` may lie past the range, in its padding.
  int64_t count_below(int64_t end) const;
  std::vector<Range> parts() const;  // its parts of the block, ascending

 private:
  Range range_;
  int64_t to_arena_;  // added to a place in the block
  BlockOwners owners_;
  int member_;
};

// The part of a tensor that the rank at `at` holds.
HeldRange held_range(const CheckpointTensor& tensor, const GridShape& shape, const Coordinate& at);

// Elements that the shard must have there, with padding.
int64_t shard_numel(const CheckpointTensor& tensor, const GridShape& shape, const Coordinate& at);

// UserError unless the tensor's cut is possible and its shard has the size that it needs.
void check_shard(const CheckpointTensor& tensor, const GridShape& shape, const Coordinate& at, const char* where);

// UserError unless the number can be the place of a range in an arena.
void check_place(int64_t offset, const std::string& name, const char* where);

// UserError unless ranks of `axes`, each once, hold the same elements of the tensor.
void check_cut(const CheckpointCut& cut, const ShardSpec& spec, const std::string& name, const char* where);

}  // namespace axonn
