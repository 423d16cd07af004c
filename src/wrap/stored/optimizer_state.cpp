#include "wrap/stored/optimizer_state.hpp"

#include <utility>

#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

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
  AXONN_CHECK(owner != nullptr, "wrap.state_dict",
              "the state of this optimizer is not known; use SGD, Adam, AdamW, Adagrad or RMSprop");
  ParameterState state = fields_of(*owner);
  state.owner = std::move(owner);
  return state;
}

void add_tensors(const WrappedModule& parameters, size_t index, const ParameterState& state, const at::Tensor& step,
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

std::vector<StoredTensor> tensors_of(const WrappedModule& parameters, torch::optim::Optimizer& optimizer) {
  new_state(optimizer);  // whether its kind is known
  std::vector<StoredTensor> tensors;
  for (size_t i = 0; i < parameters.local().size(); ++i) {
    const auto found = optimizer.state().find(parameters.local()[i].unsafeGetTensorImpl());
    if (found == optimizer.state().end()) continue;
    const ParameterState state = fields_of(*found->second);
    add_tensors(parameters, i, state, at::full({1}, state.step != nullptr ? *state.step : 0, at::kLong), tensors);
  }
  return tensors;
}

StateToRead::StateToRead(const WrappedModule& parameters, const torch::optim::Optimizer& optimizer,
                         const std::set<std::string>& names)
    : parameters_(parameters) {
  for (size_t i = 0; i < parameters.local().size() && !names.empty(); ++i) {
    const ParameterState& state = states_.emplace_back(new_state(optimizer));
    for (const ParameterState::Field& field : state.fields)
      if (field.always || names.contains(std::string(field.name) + "/" + parameters.names()[i]))
        *field.tensor = at::zeros_like(parameters.local()[i].detach());
    add_tensors(parameters, i, state, steps_.emplace_back(at::full({1}, 0, at::kLong)), tensors_);
  }
}

void StateToRead::give_to(torch::optim::Optimizer& optimizer) {
  for (size_t i = 0; i < states_.size(); ++i) {
    if (states_[i].step != nullptr) *states_[i].step = steps_[i].item<int64_t>();
    if (states_[i].step == nullptr && !states_[i].fields.front().tensor->defined()) continue;  // SGD before a step
    optimizer.state()[parameters_.local()[i].unsafeGetTensorImpl()] = std::move(states_[i].owner);
  }
}

}  // namespace axonn
