#include "axonn/train/checkpoint_tensors.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace axonn {

std::vector<CheckpointTensor> checkpoint_tensors(const Parameters& parameters, const Optimizer* optimizer,
                                                 const TrainTask* task) {
  const Arena& arena = parameters.arena();
  const std::vector<OptimizerState> states =
      optimizer != nullptr ? optimizer->state() : std::vector<OptimizerState>{{"weights", arena.master()}};
  std::vector<CheckpointTensor> tensors;
  for (const OptimizerState& state : states)
    for (const ArenaSlot& slot : arena.slots()) {
      CheckpointTensor tensor{state.name + "/" + slot.name, slot.spec, {}};
      const auto region =
          std::ranges::find_if(arena.regions(), [&](const OwnedRegion& one) { return slot.offset < one.range.end; });
      if (state.own) {
        tensor.shard = state.tensor.narrow(0, region->own_place(slot.offset),
                                           region->own_count({slot.offset, slot.offset + slot.stored}));
        if (region->shared()) {
          tensor.cut = CheckpointCut::over(parameters.grid(), region->axes);
          tensor.arena_offset = slot.offset;
        }
      } else {
        tensor.shard = state.tensor.narrow(0, slot.offset, slot.stored);
      }
      tensors.push_back(std::move(tensor));
    }
  if (task != nullptr) std::ranges::move(task->state(), std::back_inserter(tensors));
  return tensors;
}

std::vector<CheckpointTensor> weights_to_use(const Parameters& parameters, const CheckpointReader& reader) {
  auto tensors = checkpoint_tensors(parameters, nullptr);
  const bool averaged =
      std::ranges::any_of(reader.tensors(), [](const auto& tensor) { return tensor.name.starts_with("ema/"); });
  if (averaged)
    for (CheckpointTensor& tensor : tensors) tensor.name.replace(0, tensor.name.find('/'), "ema");
  return tensors;
}

}  // namespace axonn
