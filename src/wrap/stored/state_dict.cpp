#include "axonn/wrap/state_dict.hpp"

#include <memory>
#include <set>
#include <utility>

#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "axonn/core/error.hpp"
#include "wrap/stored_tensors.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "wrap.state_dict";

void check_between_steps(const WrappedModule& parameters) {
  AXONN_CHECK(!parameters.network().context().scheduler().in_step(), kWhere,
              "weights and optimizer state are saved and loaded between steps; call step.finish() first");
  parameters.parameters().schedule().wait_for_weights();
}

std::vector<StoredTensor> of_module(const WrappedModule& parameters, std::optional<at::ScalarType> dtype) {
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

// What an optimizer keeps of one parameter.
struct ParameterState {
  struct Field {
    const char* name;
    at::Tensor* tensor;
    bool always;  // false: only with some options of the optimizer
  };
  std::unique_ptr<torch::optim::OptimizerParamState> owner;
  std::vector<Field> fields;
  int64_t* step = nullptr;
};

ParameterState fields_of(torch::optim::OptimizerParamState& state) {
  using namespace torch::optim;
  const auto adam = [](auto& of) {
    return ParameterState{nullptr,
                          {{"exp_avg", &of.exp_avg(), true},
                           {"exp_avg_sq", &of.exp_avg_sq(), true},
                           {"max_exp_avg_sq", &of.max_exp_avg_sq(), false}},
                          &of.step()};
  };
  if (auto* of = dynamic_cast<AdamWParamState*>(&state)) return adam(*of);
  if (auto* of = dynamic_cast<AdamParamState*>(&state)) return adam(*of);
  if (auto* of = dynamic_cast<AdagradParamState*>(&state)) return {nullptr, {{"sum", &of->sum(), true}}, &of->step()};
  if (auto* of = dynamic_cast<SGDParamState*>(&state))
    return {nullptr, {{"momentum_buffer", &of->momentum_buffer(), false}}, nullptr};
  auto* of = dynamic_cast<RMSpropParamState*>(&state);
  AXONN_ASSERT(of != nullptr, "a state of a kind that new_state() does not make");
  return {nullptr,
          {{"square_avg", &of->square_avg(), true},
           {"momentum_buffer", &of->momentum_buffer(), false},
           {"grad_avg", &of->grad_avg(), false}},
          &of->step()};
}

ParameterState new_state(const torch::optim::Optimizer& optimizer) {
  using namespace torch::optim;
  std::unique_ptr<OptimizerParamState> owner;
  if (dynamic_cast<const AdamW*>(&optimizer) != nullptr) owner = std::make_unique<AdamWParamState>();
  if (dynamic_cast<const Adam*>(&optimizer) != nullptr) owner = std::make_unique<AdamParamState>();
  if (dynamic_cast<const Adagrad*>(&optimizer) != nullptr) owner = std::make_unique<AdagradParamState>();
  if (dynamic_cast<const SGD*>(&optimizer) != nullptr) owner = std::make_unique<SGDParamState>();
  if (dynamic_cast<const RMSprop*>(&optimizer) != nullptr) owner = std::make_unique<RMSpropParamState>();
  AXONN_CHECK(owner != nullptr, kWhere,
              "the state of this optimizer is not known; use SGD, Adam, AdamW, Adagrad or RMSprop");
  ParameterState state = fields_of(*owner);
  state.owner = std::move(owner);
  return state;
}

// The tensors of one parameter's state in a file.
void add_stored(const WrappedModule& parameters, size_t index, const ParameterState& state, const at::Tensor& step,
                std::vector<StoredTensor>& tensors) {
  const ArenaSlot& slot = parameters.parameters().arena().slots()[index];
  const FoundTensor& found = parameters.network().found().trained[index];
  const std::vector<int64_t> shape = found.tensor.sizes().vec();
  for (const ParameterState::Field& field : state.fields)
    if (field.tensor->defined())
      tensors.push_back({{std::string(field.name) + "/" + slot.name},
                         shape,
                         *field.tensor,
                         &slot,
                         field.tensor->scalar_type(),
                         found.layer.has_value()});
  if (state.step != nullptr) tensors.push_back({{"step/" + slot.name}, {}, step, nullptr, at::kLong});
}

}  // namespace

void save_state_dict(const WrappedModule& parameters, const std::filesystem::path& file,
                     const SaveStateDictOptions& options) {
  check_between_steps(parameters);
  AXONN_CHECK(options.shard_bytes >= 0, kWhere, "shard_bytes must be 0 (one file) or positive, got ",
              options.shard_bytes);
  write_tensors(parameters.network().context(), of_module(parameters, options.dtype), file, options.shard_bytes);
}

LoadedStateDict load_state_dict(const WrappedModule& parameters, const std::filesystem::path& file,
                                const LoadStateDictOptions& options) {
  check_between_steps(parameters);
  const LoadedStateDict report = read_tensors(parameters.network().context(), of_module(parameters, {}), file, options);
  parameters.network().frozen_written();
  return report;
}

void save_optimizer(const WrappedModule& parameters, torch::optim::Optimizer& optimizer,
                    const std::filesystem::path& file) {
  check_between_steps(parameters);
  new_state(optimizer);  // whether its kind is known
  std::vector<StoredTensor> tensors;
  for (size_t i = 0; i < parameters.local().size(); ++i) {
    const auto found = optimizer.state().find(parameters.local()[i].unsafeGetTensorImpl());
    if (found == optimizer.state().end()) continue;
    const ParameterState state = fields_of(*found->second);
    add_stored(parameters, i, state, at::full({1}, state.step != nullptr ? *state.step : 0, at::kLong), tensors);
  }
  write_tensors(parameters.network().context(), tensors, file);
}

void load_optimizer(const WrappedModule& parameters, torch::optim::Optimizer& optimizer,
                    const std::filesystem::path& file) {
  check_between_steps(parameters);
  const std::set<std::string> names = names_in(parameters.network().context(), file);
  std::vector<ParameterState> states;
  std::vector<at::Tensor> steps;
  std::vector<StoredTensor> tensors;
  for (size_t i = 0; i < parameters.local().size(); ++i) {
    const ParameterState& state = states.emplace_back(new_state(optimizer));
    for (const ParameterState::Field& field : state.fields)
      if (field.always || names.contains(std::string(field.name) + "/" + parameters.names()[i]))
        *field.tensor = at::zeros_like(parameters.local()[i].detach());
    add_stored(parameters, i, state, steps.emplace_back(at::full({1}, 0, at::kLong)), tensors);
  }
  read_tensors(parameters.network().context(), tensors, file, {});
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].step != nullptr) *states[i].step = steps[i].item<int64_t>();
    if (states[i].step == nullptr && !states[i].fields.front().tensor->defined()) continue;  // SGD before a step
    optimizer.state()[parameters.local()[i].unsafeGetTensorImpl()] = std::move(states[i].owner);
  }
}

}  // namespace axonn
