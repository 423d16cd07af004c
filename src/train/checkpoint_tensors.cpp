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
  if (const Parameters* frozen = parameters.frozen())
    std::ranges::move(arena_tensors(frozen->arena(), frozen->grid(), {{"weights", frozen->arena().master()}}),
                      std::back_inserter(tensors));
  if (task != nullptr) std::ranges::move(task->state(), std::back_inserter(tensors));
  return tensors;
}

std::vector<CheckpointTensor> weights_to_use(const Parameters& parameters, const CheckpointReader& reader) {
  auto tensors = checkpoint_tensors(parameters, nullptr);
  const bool averaged =
      std::ranges::any_of(reader.tensors(), [](const auto& tensor) { return tensor.name.starts_with("ema/"); });
  // Frozen weights have no average.
  const auto has = [&](const std::string& name) {
    return std::ranges::any_of(reader.tensors(), [&](const auto& tensor) { return tensor.name == name; });
  };
  if (averaged)
    for (CheckpointTensor& tensor : tensors)
      if (const std::string average = "ema" + tensor.name.substr(tensor.name.find('/')); has(average))
        tensor.name = average;
  return tensors;
}

}  // namespace axonn
