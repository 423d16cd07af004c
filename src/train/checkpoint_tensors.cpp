#include "axonn/train/checkpoint_tensors.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "train/arena_tensors.hpp"

namespace axonn {

std::vector<CheckpointTensor> checkpoint_tensors(const Parameters& parameters, const Optimizer* optimizer,
                                                 const TrainTask* task) {
  const Arena& arena = parameters.arena();
  const std::vector<OptimizerState> states =
      optimizer != nullptr ? optimizer->state() : std::vector<OptimizerState>{{"weights", arena.master()}};
  auto tensors = arena_tensors(arena, parameters.grid(), states);
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
