#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "axonn/checkpoint/checkpoint.hpp"

namespace axonn {

// A rank's part of a tensor, as it writes it.
struct SavedRange {
  Range range;                  // within the flattened block
  std::vector<Range> in_shard;  // none: other ranks of the cut hold all of the range
};

// Nothing if another rank writes what this one holds, or all of it is padding. `place` is that of
// the range in the arena, only with a cut.
std::optional<SavedRange> saved_by(const ShardSpec& spec, const std::optional<CheckpointCut>& cut, int64_t place,
                                   const GridShape& shape, const Coordinate& at);
std::optional<SavedRange> saved_by(const CheckpointTensor& tensor, const GridShape& shape, const Coordinate& at);

int64_t elements_of(const std::vector<Range>& parts);
// The bytes of `parts` of the shard.
std::vector<Staging::Bytes> spans_of(const at::Tensor& host, const std::vector<Range>& parts);

}  // namespace axonn
