// The part of WrappedNetwork that gives values to the tensors of a module made by on_meta().
#include <algorithm>
#include <utility>

#include <ATen/core/grad_mode.h>

#include "axonn/comm/same_tensors.hpp"
#include "axonn/core/error.hpp"
#include "wrap/wrapped_network.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "wrap.on_meta";
constexpr size_t kAhead = size_t{32} << 20;  // bytes that the first rank sends before the others take them

// A tensor of the module, and what keeps it.
struct Target {
  FoundTensor* found = nullptr;
  const Parameters* kept_by = nullptr;  // null: a buffer
  const ArenaSlot* slot = nullptr;      // its place there
};

// By the recording that made them; recordings in the module's order, the same on all ranks.
using Targets = std::vector<std::pair<std::shared_ptr<const Recording>, std::vector<Target>>>;

void add(Targets& targets, std::vector<FoundTensor>& found, const Parameters* kept_by) {
  std::vector<const ArenaSlot*> slots(found.size());
  if (kept_by != nullptr)
    for (const ArenaSlot& slot : kept_by->arena().slots()) slots[static_cast<size_t>(slot.number)] = &slot;
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].deferred) continue;
    const auto& recording = found[i].deferred->recording;
    auto known = std::ranges::find(targets, recording, &Targets::value_type::first);
    if (known == targets.end()) known = targets.insert(targets.end(), {recording, {}});
    known->second.push_back({&found[i], kept_by, slots[i]});
  }
}

}  // namespace

void WrappedNetwork::draw_values() {
  const at::NoGradGuard no_grad;
  Targets targets;
  add(targets, found_.trained, &parameters_);
  add(targets, found_.frozen, &frozen_);
  add(targets, found_.buffers, nullptr);
  for (auto& [recording, made] : targets) {
    if (recording->initial() == MetaValues::loaded)
      std::erase_if(made, [&](const Target& each) {
        if (each.kept_by != nullptr) without_values_.insert(each.found->names.front());
        return each.kept_by != nullptr;
      });
    std::vector<at::Tensor> tensors;
    for (const Target& each : made) tensors.push_back(each.found->deferred->tensor);
    std::vector<NamedTensor> in_order;
    for (const size_t i : recording->order(tensors)) in_order.push_back({made[i].found->names.front(), tensors[i]});
    Communicator& everyone = context_->communicators().on_cpu(AxisSet::all());
    check_same_tensors(everyone, in_order, kWhere);
    size_t sent = 0;
    recording->replay(tensors, [&](size_t i, const at::Tensor& value) {
      const FoundTensor& found = *made[i].found;
      const at::Tensor whole = value.to(context_->options().device);
      if ((sent += whole.nbytes()) > kAhead) {
        everyone.barrier().wait();
        sent = whole.nbytes();
      }
      share(context_, {whole});
      if (made[i].kept_by != nullptr)
        take_value(found, *made[i].slot, made[i].kept_by->arena(), whole);
      else
        found.tensor.copy_(whole);
    });
  }
  for (auto* list : {&found_.trained, &found_.frozen, &found_.empty, &found_.buffers})
    for (FoundTensor& each : *list) each.deferred.reset();
  if (targets.empty()) return;
  update_weights();
  frozen_written();
}

void WrappedNetwork::values_loaded(const std::vector<std::string>& missing) {
  std::erase_if(without_values_,
                [&](const std::string& name) { return std::ranges::find(missing, name) == missing.end(); });
}

void WrappedNetwork::check_values() const {
  AXONN_CHECK(without_values_.empty(), kWhere, "parameter '", *without_values_.begin(),
              "' has no values: its module was made by on_meta() with MetaValues::loaded; call load_state_dict() or "
              "load_checkpoint() first");
}

}  // namespace axonn
