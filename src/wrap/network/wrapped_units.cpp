// The part of WrappedNetwork that lends the parameters of a unit to its forward and its backward,
// and takes their gradients.
#include <utility>

#include <ATen/core/grad_mode.h>

#include "axonn/core/error.hpp"
#include "axonn/overlap/step/network_schedule.hpp"
#include "wrap/wrapped_network.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "wrap.step";

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

}  // namespace axonn
