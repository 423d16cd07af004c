#include "wrap/wrapped_network.hpp"

#include <ranges>
#include <utility>

#include <ATen/core/grad_mode.h>

#include "axonn/core/env.hpp"
#include "axonn/core/error.hpp"
#include "axonn/layers/compare/differences.hpp"
#include "axonn/overlap/step/network_schedule.hpp"
#include "wrap/check/layout_check.hpp"
#include "wrap/split_layer.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "wrap.step";
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

// The unit's parameters, by one gather.
void lend(const std::vector<int>& parameters, std::vector<LeasedParameter>& leased, const Parameters& of) {
  std::optional<GatheredWeight> bundle;
  for (const int index : parameters) {
    LeasedParameter& parameter = leased[static_cast<size_t>(index)];
    const ArenaSlot& slot = parameter.shard().slot();
    if (!slot.sharded_over_z()) {
      parameter.shard().gathered();  // its values may be on their way
      continue;
    }
    if (!bundle) bundle = of.schedule().gathered(of.arena().bundles()[static_cast<size_t>(slot.bundle)]);
    parameter.lend(bundle->part(slot.place, slot.block_shape));
  }
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
                  context.options().device, /*seed=*/0, context.kept_scheduler()),
      frozen_(sharded(found_.frozen), context.grid(), context.rank(), context.arena_types(), context.options().device,
              /*seed=*/0, context.kept_scheduler(), /*trained=*/false),
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

void WrappedNetwork::enter(int unit) {
  Unit& entered = units_[static_cast<size_t>(unit)];
  if (entered.held == 0) {
    lend(entered.trained, leased_, parameters_);
    lend(entered.frozen, leased_frozen_, frozen_);
  }
  ++entered.held;  // not when a gather throws
}

void WrappedNetwork::leave(int unit) {
  Unit& left = units_[static_cast<size_t>(unit)];
  if (--left.held > 0) return;
  const auto drop = [this](LeasedParameter& parameter) {
    check_unwritten(parameter);
    parameter.drop();
  };
  for (const int index : left.trained) drop(leased_[static_cast<size_t>(index)]);
  for (const int index : left.frozen) drop(leased_frozen_[static_cast<size_t>(index)]);
}

void WrappedNetwork::check_usable(const std::string& name) const {
  AXONN_CHECK(context_->scheduler().in_step() || evaluating_ > 0, kWhere, "'", name,
              "' is used outside a step; call context.begin_step() first, or evaluate while parameters.gathered() "
              "lives");
}

void WrappedNetwork::begin_forward(int unit) {
  Scheduler& scheduler = context_->scheduler();
  AXONN_CHECK(!at::GradMode::is_enabled() || scheduler.in_step() || units_[static_cast<size_t>(unit)].trained.empty(),
              kWhere, "unit '", found_.units[static_cast<size_t>(unit)],
              "' is used under autograd outside a step; call context.begin_step() first, or hold a "
              "torch::NoGradGuard when no gradient is needed");
  if (!scheduler.in_step() && evaluating_ == 0) update_weights();
  const Scheduler::InPhase again(scheduler, scheduler.phase());  // a forward after a backward: the next micro-batch
  enter(unit);
}

// A frozen parameter has no gradient that tells when backward no longer reads it. Each of its
// readers leads to the gradient of a trained parameter or of an input.
std::shared_ptr<WrappedNetwork::Inputs> WrappedNetwork::watch(int unit, const std::vector<const at::Tensor*>& inputs) {
  const auto watched = std::make_shared<Inputs>();
  if (units_[static_cast<size_t>(unit)].frozen.empty() || !at::GradMode::is_enabled()) return watched;
  for (const at::Tensor* input : inputs) {
    if (!input->requires_grad()) continue;
    ++watched->all;
    input->register_hook([network = weak_from_this(), unit, watched](const at::Tensor&) {
      const auto alive = network.lock();
      if (alive == nullptr || watched->left == 0) return;
      --watched->left;
      Unit& of = alive->units_[static_cast<size_t>(unit)];
      --of.inputs;
      alive->leave_if_done(of);
    });
  }
  return watched;
}

void WrappedNetwork::begin_backward(int unit, Inputs& inputs) {
  AXONN_CHECK(!at::GradMode::is_enabled(), kWhere, "unit '", found_.units[static_cast<size_t>(unit)],
              "' is differentiated twice (create_graph), which units do not support; leave it out of the units");
  AXONN_CHECK(context_->scheduler().in_step(), kWhere, "backward reaches unit '",
              found_.units[static_cast<size_t>(unit)],
              "' outside a step; backward must run inside the step of its forward");
  Unit& reached = units_[static_cast<size_t>(unit)];
  reached.missing = static_cast<int>(reached.trained.size());
  reached.inputs += inputs.all - std::exchange(inputs.left, inputs.all);
  if (std::exchange(reached.in_backward, true)) return;
  const Scheduler::InPhase backward(context_->scheduler(), Phase::backward);
  enter(unit);
}

void WrappedNetwork::leave_if_done(Unit& unit) {
  if (unit.missing <= 0 && unit.inputs <= 0) leave_backward(unit);
}

void WrappedNetwork::leave_backward(Unit& unit) {
  unit.inputs = 0;
  if (std::exchange(unit.in_backward, false)) leave(static_cast<int>(&unit - units_.data()));
}

void WrappedNetwork::arrived(int parameter) {
  const auto index = static_cast<size_t>(parameter);
  const LeasedParameter& leased = leased_[index];
  AXONN_CHECK(context_->scheduler().in_step(), kWhere, "a gradient of '", leased.name(),
              "' came outside a step; backward must run inside the step of its forward");
  ++arrived_[index];
  if (!local_.empty() && !local_[index].grad().defined()) local_[index].mutable_grad() = awaited_[index];
  if (options_.unused == Unused::refuse) {
    leased.reduce(leased.tensor().grad(), parameters_.schedule());
    leased.tensor().mutable_grad().reset();
  }
  Unit& unit = units_[static_cast<size_t>(found_.trained[index].unit)];
  --unit.missing;
  leave_if_done(unit);
}

void WrappedNetwork::check_own_memory(int unit, const at::Tensor& output) const {
  const auto check = [&](const std::vector<int>& parameters, const std::vector<LeasedParameter>& leased) {
    for (const int index : parameters)
      AXONN_CHECK(!leased[static_cast<size_t>(index)].holds(output), kWhere, "unit '",
                  found_.units[static_cast<size_t>(unit)], "' returns a view of its parameter '",
                  leased[static_cast<size_t>(index)].name(),
                  "', which is freed now; return a clone(), or leave it out of the units");
  };
  check(units_[static_cast<size_t>(unit)].trained, leased_);
  check(units_[static_cast<size_t>(unit)].frozen, leased_frozen_);
}

void WrappedNetwork::frozen_written() {
  frozen_.arena().round_master();
  frozen_.schedule().weights_written();
}

std::vector<uint32_t> WrappedNetwork::buffer_versions() const {
  std::vector<uint32_t> versions;
  for (const FoundTensor& each : found_.buffers) versions.push_back(each.tensor._version());
  return versions;
}

void WrappedNetwork::share_buffers() const {
  std::vector<at::Tensor> buffers;
  for (const FoundTensor& each : found_.buffers) buffers.push_back(each.tensor);
  share(context_, buffers);
}

void WrappedNetwork::step_begins() {
  check_module();
  AXONN_CHECK(evaluating_ == 0, kWhere,
              "a result of parameters.gathered() still lives, whose weights the step will change; let it go before "
              "context.begin_step()");
  AXONN_CHECK(!stands_in_, kWhere,
              "the weights are their averages while a result of Average::use() lives; let it go before "
              "context.begin_step()");
  for (const auto* list : {&leased_, &leased_frozen_})
    for (const LeasedParameter& each : *list)
      AXONN_CHECK(each.in_place(), kWhere, "parameter '", each.name(),
                  "' lies in other memory than shard() gave it; call to() and set_data() before shard()");
  for (const LeasedParameter& each : leased_) {
    AXONN_CHECK(each.tensor().requires_grad(), kWhere, "parameter '", each.name(),
                "' requires no gradient any more; call requires_grad_(false) before shard()");
  }
  for (const LeasedParameter& each : leased_frozen_)
    AXONN_CHECK(!each.tensor().requires_grad(), kWhere, "parameter '", each.name(),
                "' requires a gradient, but did not when it was sharded; call requires_grad_() before shard()");
  check_weights();
  update_weights();
}

void WrappedNetwork::step_begun() {
  std::ranges::fill(arrived_, 0);
  for (LeasedParameter& each : leased_) {
    each.tensor().mutable_grad().reset();
    each.outdate();
  }
  for (size_t i = 0; i < local_.size(); ++i) local_[i].mutable_grad() = awaited_[i];
  if (!local_.empty()) local_version_ = static_cast<uint32_t>(local_.front()._version());
  if (options_.buffers == Buffers::first_rank) share_buffers();
  buffer_versions_ = buffer_versions();
  enter(0);
}

void WrappedNetwork::step_ends() {
  for (auto* list : {&leased_, &leased_frozen_})
    for (LeasedParameter& each : *list) check_unwritten(each);
  if (!in_vain_.empty()) throw UserError(kWhere, std::exchange(in_vain_, ""));
  AXONN_CHECK(local_.empty() || static_cast<uint32_t>(local_.front()._version()) == local_version_, kWhere,
              "a tensor of local() was written inside the step; write them, and call optimizer.step(), after "
              "step.finish()");
  const std::vector<uint32_t> versions = buffer_versions();
  for (size_t i = 0; i < versions.size() && options_.buffers == Buffers::refuse; ++i)
    AXONN_CHECK(found_.buffers[i].synchronised || versions[i] == buffer_versions_[i], kWhere, "buffer '",
                found_.buffers[i].names.front(),
                "' has changed with the rows of this rank; call eval() on its module to keep it, make it an "
                "axonn::nn::BatchNorm1d or 2d, which is synchronised, or choose .buffers = axonn::Buffers::first_rank, "
                "as in DDP");
  if (parameters_.schedule().rests()) return;
  for (size_t i = 0; i < leased_.size() && options_.unused == Unused::refuse; ++i)
    AXONN_CHECK(arrived_[i] > 0, kWhere, "parameter '", leased_[i].name(),
                "' got no gradient in this step; use it in the loss, choose .unused = axonn::Unused::zero, hold an "
                "axonn::FrozenGuard while only another module is trained, or call requires_grad_(false) before "
                "shard()");
  if (options_.unused == Unused::refuse) return;
  for (const LeasedParameter& each : leased_ | std::views::reverse) {
    each.reduce(each.tensor().grad(), parameters_.schedule());
    each.tensor().mutable_grad().reset();
  }
}

void WrappedNetwork::step_over(bool finished) {
  if (checks_layouts_) stop_following();
  for (Unit& unit : units_) leave_backward(unit);
  leave(0);
  const NetworkSchedule& schedule = parameters_.schedule();
  const bool whole = finished && !schedule.rests() && schedule.whole_gradients() && parameters_.arena().has_master();
  for (auto* list : {&leased_, &leased_frozen_})
    for (LeasedParameter& each : *list) each.end_step();
  for (size_t i = 0; i < found_.trained.size(); ++i)
    found_.trained[i].tensor.mutable_grad() = whole ? not_in_module_[i] : at::Tensor();
  for (size_t i = 0; i < local_.size(); ++i)
    local_[i].mutable_grad() = whole ? gradients_[i].to(local_[i].scalar_type()) : at::Tensor();
  if (!finished) in_vain_.clear();
  if (!finished || schedule.rests()) return;
  ++finished_;
  const int64_t every = options_.check_replicas;
  const bool has_replicas = context_->shape().ranks() > 1;
  compare_due_ = every > 0 && (finished_ <= kComparedSteps || (has_replicas && finished_ % every == 0));
  if (whole && every > 0 && finished_ <= kComparedSteps) compare_gradients();
}

}  // namespace axonn
