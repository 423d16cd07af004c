#include "wrap/stored/stored_tensors.hpp"

#include "axonn/core/error.hpp"

namespace axonn {

void check_between_steps(const WrappedModule& parameters, Held held) {
  AXONN_CHECK(!parameters.network().context().scheduler().in_step(), "wrap.state_dict",
              "weights and optimizer state are saved and loaded between steps; call step.finish() first");
  parameters.parameters().schedule().wait_for_weights();
  if (held == Held::saved) parameters.network().check_weights(/*compare=*/true);
}

std::vector<StoredTensor> tensors_of(const WrappedModule& parameters, std::optional<at::ScalarType> dtype) {
  const WrappedNetwork& network = parameters.network();
  const auto& slots = parameters.parameters().arena().slots();
  std::vector<StoredTensor> tensors;
  for (size_t i = 0; i < slots.size(); ++i) {
    const at::Tensor held = parameters.local()[i].detach();
    const FoundTensor& found = network.found().trained[i];
    tensors.push_back({found.names, found.tensor.sizes().vec(), held, &slots[i], dtype.value_or(held.scalar_type()),
                       found.layer.has_value()});
  }
  const Arena& frozen = network.frozen().arena();
  for (const ArenaSlot& slot : frozen.slots()) {
    const FoundTensor& found = network.found().frozen[static_cast<size_t>(slot.number)];
    const at::Tensor held = frozen.master().narrow(0, slot.offset, slot.range.size());
    tensors.push_back({found.names, found.tensor.sizes().vec(), held, &slot, dtype.value_or(held.scalar_type())});
  }
  for (const auto* list : {&network.found().empty, &network.found().buffers})
    for (const FoundTensor& each : *list) {
      const bool narrowed = dtype && list == &network.found().empty && each.tensor.is_floating_point();
      tensors.push_back({each.names, each.tensor.sizes().vec(), each.tensor.detach().view({-1}), nullptr,
                         narrowed ? *dtype : each.tensor.scalar_type()});
    }
  return tensors;
}

}  // namespace axonn
