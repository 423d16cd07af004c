#pragma once

#include <span>

#include "axonn/grid/shard_spec.hpp"
#include "axonn/perfmodel/memory.hpp"

namespace axonn {

// Trainable tensors of one kind.
struct StoredTensors {
  ShardSpec spec;
  int64_t count = 1;
};

// The parts of a prediction that follow from the tensors alone: weights, gradients, optimizer, gathered and scattered blocks. UserError for
// options that are not positive.
MemoryPrediction predict_stored(std::span<const StoredTensors> tensors, const GridShape& grid, const MemoryOptions& options);

}  // namespace axonn
