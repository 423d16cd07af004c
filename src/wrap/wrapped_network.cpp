#include "wrap/wrapped_network.hpp"

#include <utility>

#include <ATen/core/grad_mode.h>

#include "axonn/core/env.hpp"
#include "axonn/core/error.hpp"
#include "axonn/layers/compare/differences.hpp"
#include "axonn/overlap/step/network_schedule.hpp"
#include "wrap/split_layer.hpp"

namespace axonn {
namespace {

constexpr int64_t kLeastSharded = 1024;  // elements; smaller parameters lie on every rank

// In the place of a gradient that is not there yet, or lies elsewhere.
at::Tensor no_gradient(const at::Tensor& of, const std::string& error) {
  at::Tensor gradient = at::empty({0}, of.options().requires_grad(false));
  gradient.unsafeGetTensorImpl()->set_sizes_contiguous(of.sizes());
  if (gradient.numel() > 0) make_absent(gradient, error);
  return gradient;
}

std::vector<std::pair<std::string, ShardedParameter>> sharded(const std::vector<FoundTensor>& found) {
  std::vector<std::pair<std::string, ShardedParameter>> named;
  for (const FoundTensor& each : found) {
    if (each.layer) {
      named.emplace_back(each.names.front(), *each.layer);
      continue;
    }
    ShardSpec spec{.over_z = each.tensor.numel() >= kLeastSharded};
    for (const int64_t size : each.tensor.sizes()) spec.dims.push_back(Dim::whole(size));
    if (spec.dims.empty()) spec.dims.push_back(Dim::whole(1));
    named.emplace_back(
        each.names.front(),
        ShardedParameter(
            {.spec = std::move(spec), .initial = {}, .decay = each.tensor.dim() >= 2, .bundle = each.unit}));
  }
  return named;
}

}  // namespace

at::Tensor FoundTensor::stored(const at::Tensor& whole) const {
  return (layer ? as_stored(whole) : whole).reshape({-1});
}

void share(Context& context, const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  Communicator& everyone = context.communicators()[{Axis::x, Axis::y, Axis::z, Axis::data}];
  for (const at::Tensor& each : tensors) {
    if (each.numel() == 0) continue;
    const at::Tensor flat = each.detach().contiguous().view({-1});
    everyone.broadcast(flat.view(at::kByte), 0).wait();
    if (!each.is_contiguous()) each.detach().copy_(flat.view(each.sizes()));
  }
}

WrappedNetwork::WrappedNetwork(Context& context, FoundModule found, const ShardOptions& options)
    : context_(context),
      found_(std::move(found)),
      options_(options),
      checks_layouts_(options.check_layouts || env::is_on("AXONN_CHECK_LAYOUTS")),
      parameters_(sharded(found_.trained), context.grid(), context.rank(), context.arena_types(),
                  context.options().device, InitialDraw(), context.kept_scheduler()),
      frozen_(sharded(found_.frozen), context.grid(), context.rank(), context.arena_types(), context.options().device,
              InitialDraw(), context.kept_scheduler(), /*trained=*/false),
      units_(found_.units.size()) {
  const at::NoGradGuard no_grad;
  Arena& arena = parameters_.arena();
  take_values(found_.trained, parameters_, [&](int i) { return !found_.trained[static_cast<size_t>(i)].deferred; });
  take_values(found_.frozen, frozen_, [&](int i) { return !found_.frozen[static_cast<size_t>(i)].deferred; });
  for (const ArenaSlot& slot : arena.slots()) {
    const FoundTensor& each = found_.trained[static_cast<size_t>(slot.number)];
    names_.push_back(slot.name);
    if (!each.layer) units_[static_cast<size_t>(each.unit)].trained.push_back(slot.number);
    local_.push_back(arena.master().narrow(0, slot.offset, slot.range.size()).detach().requires_grad_());
    gradients_.push_back(arena.gradient(slot).detach());
    awaited_.push_back(no_gradient(
        local_.back(), "the gradient of '" + slot.name +
                           "' is the sum over the grid, which step.finish() computes: call step.finish() before "
                           "optimizer.step() and before anything else that reads gradients of local()"));
  }
  update_weights();
  frozen_written();
  for (size_t i = 0; i < found_.frozen.size(); ++i) {
    const FoundTensor& each = found_.frozen[i];
    units_[static_cast<size_t>(each.unit)].frozen.push_back(static_cast<int>(i));
    leased_frozen_.emplace_back(each.tensor, frozen_.list()[i], frozen_.arena());
  }
  for (size_t i = 0; i < found_.trained.size(); ++i) {
    const FoundTensor& each = found_.trained[i];
    if (each.layer)
      make_absent(each.tensor, "parameter '" + each.names.front() +
                                   "' is divided by axonn::parallelize(): call the Sequential or module that had "
                                   "it, and save with axonn::save_state_dict()");
    else
      leased_.emplace_back(each.tensor, parameters_.list()[i], arena);
  }
  for (const FoundTensor& each : found_.trained)
    not_in_module_.push_back(no_gradient(
        each.tensor,
        "the gradient of '" + each.names.front() +
            "' is not in the module outside a step, but in local(): make the optimizer of parameters.local(), "
            "call its zero_grad(), clip with axonn::clip_grad_norm_(), and run backward before "
            "step.finish()"));
  arrived_.resize(leased_.size());
}

void WrappedNetwork::take_values(const std::vector<FoundTensor>& found, const Parameters& parameters,
                                 const std::function<bool(int)>& which) const {
  const Arena& arena = parameters.arena();
  for (const ArenaSlot& slot : arena.slots()) {
    if (!which(slot.number)) continue;
    const FoundTensor& each = found[static_cast<size_t>(slot.number)];
    take_value(each, slot, arena, each.tensor.detach());
  }
}

void WrappedNetwork::take_value(const FoundTensor& found, const ArenaSlot& slot, const Arena& arena,
                                const at::Tensor& whole) const {
  arena.master()
      .narrow(0, slot.offset, slot.range.size())
      .copy_(stored_part(found.stored(whole), slot, context_->shape(), context_->at()));
}

const std::vector<at::Tensor>& WrappedNetwork::local() {
  if (!parameters_.arena().has_master()) local_.clear();
  AXONN_CHECK(!local_.empty(), "wrap.local",
              "an optimizer of axonn keeps the master weights; make it with schedule ar-opt, or use torch::optim only");
  return local_;
}

int64_t WrappedNetwork::step() const { return context_->scheduler().steps_begun(); }

// torch::optim::SGD writes past the version counter, so any weight may have changed.
void WrappedNetwork::update_weights() {
  if (!parameters_.schedule().whole_gradients() || !parameters_.arena().has_master()) return;
  const at::NoGradGuard no_grad;
  parameters_.arena().round_master();
  parameters_.schedule().weights_written();
}

void WrappedNetwork::frozen_written() {
  frozen_.arena().round_master();
  frozen_.schedule().weights_written();
}

}  // namespace axonn
