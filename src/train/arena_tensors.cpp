#include "train/arena_tensors.hpp"

#include <algorithm>
#include <utility>

namespace axonn {

namespace {

// Elements of a shard with a checkpoint's padding; buckets have more.
int64_t stored(const Arena& arena, const ArenaSlot& slot) {
  if (!arena.is_scattered()) return slot.stored;
  return (slot.range.size() + kRangeAlignment - 1) / kRangeAlignment * kRangeAlignment;
}

}  // namespace

std::vector<CheckpointTensor> arena_tensors(const Arena& arena, const Grid& grid,
                                            const std::vector<OptimizerState>& states) {
  std::vector<CheckpointTensor> tensors;
  for (const OptimizerState& state : states)
    for (const ArenaSlot& slot : arena.slots()) {
      CheckpointTensor tensor{state.name + "/" + slot.name, slot.spec, {}};
      const int64_t elements = stored(arena, slot);
      const auto region =
          std::ranges::find_if(arena.regions(), [&](const OwnedRegion& one) { return slot.offset < one.range.end; });
      if (state.own) {
        tensor.shard = state.tensor.narrow(0, region->own_place(slot.offset),
                                           region->own_count({slot.offset, slot.offset + elements}));
        if (region->shared()) {
          tensor.cut = CheckpointCut::over(grid, region->axes);
          tensor.arena_offset = slot.offset;
        }
      } else {
        tensor.shard = state.tensor.defined() ? state.tensor.narrow(0, slot.offset, elements) : arena.weight(slot);
      }
      tensors.push_back(std::move(tensor));
    }
  return tensors;
}

}  // namespace axonn
