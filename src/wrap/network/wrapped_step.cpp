// The part of WrappedNetwork that begins and ends a step, and then refuses what the step has not
// summed or would not keep.
#include <ranges>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/overlap/step/network_schedule.hpp"
#include "wrap/check/layout_check.hpp"
#include "wrap/wrapped_network.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "wrap.step";

}  // namespace

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
