#include "axonn/train/checkpoint_tensors.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace axonn {

std::vector<CheckpointTensor> checkpoint_tensors(const Parameters& parameters, const Optimizer* optimizer,
                                                 const TrainTask* task) {
  std::vector<std::pair<std::string, at::Tensor>> buffers = {{"weights", parameters.arena().master()}};
  if (optimizer != nullptr)
    for (auto& state : optimizer->state()) buffers.push_back(std::move(state));
  std::vector<CheckpointTensor> tensors;
  for (const auto& [kind, buffer] : buffers)
    for (const ArenaSlot& slot : parameters.arena().slots())
      tensors.push_back({kind + "/" + slot.name, slot.spec, buffer.narrow(0, slot.offset, slot.stored)});
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
