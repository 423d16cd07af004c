// The part of WrappedNetwork that watches: weights that are written where they do not count, or are
// taken over, replicas that differ, parameters that come after shard().
#include <algorithm>
#include <functional>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "axonn/overlap/step/network_schedule.hpp"
#include "wrap/check/layout_check.hpp"
#include "wrap/wrapped_network.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "wrap.weights";
constexpr AxisSet kEveryone = AxisSet::all();

// All parameters of the module, without their names, which cost more than the rest.
void visit(const torch::nn::Module& module, const std::function<void(const at::Tensor&)>& parameter) {
  module.apply([&](const torch::nn::Module& each) {
    for (const at::Tensor& own : each.parameters(/*recurse=*/false)) parameter(own);
  });
}

std::vector<uint64_t> fingerprints(const std::vector<LeasedParameter*>& parameters) {
  std::vector<uint64_t> result;
  for (const LeasedParameter* each : parameters) result.push_back(fingerprint(each->tensor()));
  return result;
}

}  // namespace

void WrappedNetwork::know(torch::nn::Module& module) {
  module_ = module.weak_from_this();
  visit(module, [this](const at::Tensor& each) { known_.insert(each.unsafeGetTensorImpl()); });
}

void WrappedNetwork::check_module() const {
  const auto module = module_.lock();
  if (module == nullptr) return;  // not made by make_shared: nobody knows how long it lives
  bool all_known = true;
  visit(*module, [&](const at::Tensor& each) { all_known &= known_.contains(each.unsafeGetTensorImpl()); });
  if (all_known) return;
  for (const auto& each : module->named_parameters())
    AXONN_CHECK(known_.contains(each.value().unsafeGetTensorImpl()), kWhere, "parameter '", each.key(),
                "' was registered after shard(), so nobody sums its gradient; register all parameters before shard(), "
                "or wrap the module again in a new Context");
}

void WrappedNetwork::check_unwritten(LeasedParameter& parameter) {
  if (!parameter.written()) return;
  in_vain(parameter);
  parameter.settle();  // it is said once
}

void WrappedNetwork::in_vain(const LeasedParameter& parameter) {
  if (!in_vain_.empty()) return;  // the first one
  in_vain_ = detail::concatenate(
      "parameter '", parameter.name(),
      "' of the module was written, which changes the weight that is trained on some grids only; write it while "
      "parameters.gathered({.write_back = true}) lives, with load_state_dict(), or as this rank's range in local()");
}

void WrappedNetwork::check_weights(bool compare) {
  check_values();
  for (auto* list : {&leased_, &leased_frozen_})
    for (LeasedParameter& each : *list)
      if (each.lies_in_arena()) check_unwritten(each);
  if (!in_vain_.empty()) throw UserError(kWhere, std::exchange(in_vain_, ""));
  if (options_.check_replicas > 0 && (compare || compare_due_)) compare_weights();
  compare_due_ = false;
}

// Of the trained parameters. Kernels on a GPU may add in any order, so that ranks of X and Y, which
// do the same work on what is no layer of axonn, differ by rounding.
std::vector<Replica> WrappedNetwork::replicas(const std::vector<at::Tensor>& held) const {
  const ContextOptions& options = context_->options();
  const bool rounds_alike = options.device.is_cpu() || options.gpu_kernels.deterministic;
  const auto& slots = parameters_.arena().slots();
  std::vector<Replica> result;
  for (size_t i = 0; i < slots.size(); ++i) {
    const AxisSet axes = slots[i].spec.replicated_axes();
    const bool of_layer = found_.trained[i].layer.has_value();
    result.push_back({slots[i].name, held[i], rounds_alike || of_layer ? axes : axes.without({Axis::x, Axis::y})});
  }
  return result;
}

void WrappedNetwork::compare_weights() {
  const at::NoGradGuard no_grad;
  const Arena& arena = parameters_.arena();
  parameters_.schedule().wait_for_weights();
  std::vector<at::Tensor> held;
  for (const ArenaSlot& slot : arena.slots())
    held.push_back(arena.has_master() ? arena.master().narrow(0, slot.offset, slot.range.size()) : arena.weight(slot));
  const uint64_t weights = check_same_replicas(
      context_, replicas(held), kWhere, detail::concatenate("after step ", finished_, " the weights of"),
      "check that every rank has the same learning rate and clips with axonn::clip_grad_norm_(), that ranks of X and Y "
      "get the same rows (context.row_share()), and that no rank writes weights by itself");
  if (finished_ == 0) first_weights_ = weights;
  if (finished_ == kComparedSteps && weights == first_weights_ && context_->rank() == 0)
    log::warn("no weight has changed in ", finished_,
              " steps: an optimizer of module.parameters() changes nothing, make it of parameters.local(); and "
              "optimizer.step() comes after step.finish()");
}

void WrappedNetwork::compare_gradients() {
  check_same_replicas(context_, replicas(gradients_), kWhere,
                      detail::concatenate("in step ", finished_, " the gradients of"),
                      "give ranks that differ only in X or Y the same rows, share context.row_share().mine of "
                      "row_share().groups, and the same random numbers");
}

// The parameters that the module can read and write outside its units.
std::vector<LeasedParameter*> WrappedNetwork::whole_now() {
  std::vector<LeasedParameter*> result;
  const auto add = [&](std::vector<LeasedParameter>& leased, const std::vector<FoundTensor>& found) {
    for (size_t i = 0; i < leased.size(); ++i)
      if (whole_network_ || found[i].unit == 0 || leased[i].lies_in_arena()) result.push_back(&leased[i]);
  };
  add(leased_, found_.trained);
  add(leased_frozen_, found_.frozen);
  return result;
}

void WrappedNetwork::begin_gathered(bool write_back) {
  const bool between_steps = !context_->scheduler().in_step();
  AXONN_CHECK(!write_back || (between_steps && evaluating_ == 0), kWhere,
              "gathered({.write_back = true}) is made between steps, while no other result of gathered() lives; call "
              "step.finish() first");
  AXONN_CHECK(!write_back || parameters_.arena().has_master(), kWhere,
              "an optimizer of axonn keeps the master weights, so gathered() cannot write them back; make it with "
              "schedule ar-opt, or use torch::optim");
  if (between_steps && evaluating_ == 0) {
    check_weights();
    update_weights();
  }
  const size_t units = write_back ? units_.size() : 1;
  size_t entered = 0;
  try {
    for (; entered < units; ++entered) enter(static_cast<int>(entered));
    if (evaluating_ == 0) {
      whole_network_ = write_back;
      before_gathered_ = fingerprints(whole_now());
    }
  } catch (...) {  // memory is short, or a rank has failed: as if it had not been asked for
    if (evaluating_ == 0) whole_network_ = false;
    while (entered > 0) leave(static_cast<int>(--entered));
    throw;
  }
  ++evaluating_;
}

void WrappedNetwork::end_gathered(bool takes_over) {
  if (--evaluating_ > 0) return leave(0);
  if (checks_layouts_ && !context_->scheduler().in_step()) stop_following();
  const std::vector<LeasedParameter*> parameters = whole_now();
  const std::vector<uint64_t> now = fingerprints(parameters);
  const bool write_back = std::exchange(whole_network_, false);
  std::vector<bool> written(now.size());
  for (size_t i = 0; i < now.size(); ++i) {
    written[i] = now[i] != before_gathered_[i];
    parameters[i]->settle();  // the old values are back, or else:
    if (written[i] && !(write_back && takes_over)) in_vain(*parameters[i]);
  }
  if (write_back && takes_over) take_over(written);
  leave(0);
  for (size_t unit = 1; unit < units_.size() && write_back; ++unit) leave(static_cast<int>(unit));
  if (!write_back || !takes_over) return;
  update_weights();
  frozen_written();
}

// Of the parameters that shard() lends, then of the frozen ones.
void WrappedNetwork::take_over(const std::vector<bool>& written) {
  const at::NoGradGuard no_grad;
  const at::Tensor counts = at::zeros({static_cast<int64_t>(written.size())}, at::kByte);
  auto* const taken = counts.mutable_data_ptr<uint8_t>();
  std::ranges::copy(written, taken);
  context_->communicators().on_cpu(kEveryone).broadcast(counts, 0).wait();
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < written.size(); ++i) {
    const LeasedParameter& each = i < leased_.size() ? leased_[i] : leased_frozen_[i - leased_.size()];
    if (taken[i] != 0) tensors.push_back(each.tensor());
    if (written[i] && taken[i] == 0)
      in_vain_ = detail::concatenate("parameter '", each.name(), "' was written on rank ", context_->rank(),
                                     " of the grid, but not on its first rank, whose values gathered({.write_back = "
                                     "true}) takes; write it on rank 0, or on all ranks");
  }
  share(context_, tensors);
  take_values(found_.trained, parameters_,
              [&](int i) { return i < static_cast<int>(leased_.size()) && taken[static_cast<size_t>(i)] != 0; });
  take_values(found_.frozen, frozen_, [&](int i) { return taken[leased_.size() + static_cast<size_t>(i)] != 0; });
  for (auto* list : {&leased_, &leased_frozen_})
    for (LeasedParameter& each : *list) each.settle();
}

}  // namespace axonn
