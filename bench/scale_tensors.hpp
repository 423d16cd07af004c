#pragma once

#include <string>
#include <vector>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/overlap/step/arena.hpp"

namespace axonn::bench {

// The tensors that the ranks of a grid save of a decoder that AdamW trains, its state cut over the
// ranks that share an update. The shards are only sizes: nothing is allocated.
class PlannedTensors {
 public:
  PlannedTensors(const std::string& preset, const GridShape& shape);
  std::vector<CheckpointTensor> of(int rank) const;

 private:
  Grid grid_;
  std::vector<Arena::Entry> entries_;
};

}  // namespace axonn::bench
