#include "axonn/overlap/step/scheduler.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

#include <ATen/ops/empty.h>

#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "axonn/overlap/step/step_listener.hpp"
#include "comm/context_gone.hpp"
#include "overlap/step/gradient_reducer.hpp"
#include "overlap/step/weight_gatherer.hpp"

namespace axonn {

Scheduler::Scheduler(Communicators& communicators, const Grid& grid, OverlapPolicy policy, LinearSchedule linear)
    : communicators_(communicators),
      grid_(grid),
      linear_(linear),
      gradient_sums_(std::make_unique<GradientSums>(communicators)) {
  set_policy(policy);
}

Scheduler::~Scheduler() = default;

void Scheduler::close() noexcept {
  open_ = in_step_ = false;
  gradient_sums_.reset();
}

void Scheduler::check_open() const { AXONN_CHECK(open_, "overlap.scheduler", kContextGone); }

void Scheduler::set_policy(const OverlapPolicy& policy) {
  check_open();
  AXONN_CHECK(!in_step_, "overlap.set_policy",
              "the overlap policy can change only between steps; call step.finish() first");
  AXONN_CHECK(
      policy.prefetch >= 1 && policy.outstanding >= 1 && policy.bucket_bytes >= 0 && policy.cache_budget.bytes >= 0,
      "overlap.scheduler", "prefetch and outstanding must be at least 1, bucket and cache sizes not negative; got ",
      policy.prefetch, ", ", policy.outstanding, ", ", policy.bucket_bytes, ", ", policy.cache_budget.bytes);
  erase_expired();
  policy_ = policy;
  for (const auto& network : networks_) {
    network->weights_->policy_changed();
    network->gradients_->policy_changed();
  }
}

void Scheduler::set_gradient_sums(std::unique_ptr<GradientSums> sums) {
  check_open();
  AXONN_CHECK(!in_step_, "overlap.set_gradient_sums",
              "gradients can be summed in another way between steps only; call step.finish() first");
  gradient_sums_ = std::move(sums);
  for (const auto& network : networks_) network->gradients_->set_sums(*gradient_sums_);
}

NetworkSchedule& Scheduler::add(const std::shared_ptr<Arena>& arena) {
  check_open();
  erase_expired();
  return *networks_.emplace_back(std::make_unique<NetworkSchedule>(*this, arena));
}

void Scheduler::erase_expired() {
  std::erase_if(networks_, [](const auto& network) { return network->expired(); });
}

Pending Scheduler::all_reduce(at::Tensor tensor, AxisSet axes, std::string_view tag, ReduceOp op) {
  if (grid_.shape().size(axes) == 1) return Pending(std::move(tensor));
  check_open();
  Request request =
      communicators_[axes].all_reduce(tensor, op, {.priority = queue_of(Traffic::all_reduce), .tag = tag});
  return launched(std::move(tensor), axes, tag, std::move(request));
}

LinearSchedule Scheduler::resolved(AxisSet axes, int64_t bytes) const {
  if (linear_ != LinearSchedule::automatic) return linear_;
  check_open();
  return bytes >= kSmallestOverlapped && communicators_[axes].sends_messages() ? LinearSchedule::overlap
                                                                               : LinearSchedule::mm_ar_c;
}

bool Scheduler::owner_computes(const RowProduct& product, AxisSet axes) const {
  return resolved(axes, product.bytes()) != LinearSchedule::mm_ar_c;
}

std::string Scheduler::linear_text() const {
  std::string all, overlapped;
  for (const Axis axis : {Axis::x, Axis::y}) {
    if (grid_.shape()[axis] == 1) continue;
    all.append(all.empty() ? "" : " and ").append(to_string(axis));
    if (resolved(axis, kSmallestOverlapped) == LinearSchedule::overlap)
      overlapped.append(overlapped.empty() ? "" : " and ").append(to_string(axis));
  }
  const std::string text(to_string(linear_));
  if (all.empty()) return text + " (x = y = 1: no layer has a sum)";
  if (linear_ != LinearSchedule::automatic) return text + " over " + all;
  return text + (overlapped.empty() ? " (mm-ar-c over " + all + ")"
                                    : " (over " + overlapped + ": overlap from " +
                                          binary_count_text(kSmallestOverlapped) + ", else mm-ar-c)");
}

Pending Scheduler::sum(const RowProduct& product, AxisSet axes, std::string_view tag) {
  check_open();
  AXONN_ASSERT(grid_.shape().size(axes) > 1, "a sum has two ranks or more");
  const LinearSchedule schedule = resolved(axes, product.bytes());
  ++linear_counts_[static_cast<size_t>(schedule)];
  if (schedule == LinearSchedule::mm_ar_c) return all_reduce(product.all(), axes, tag);
  Communicator& ranks = communicators_[axes];
  CollectiveOptions options{.priority = queue_of(Traffic::all_reduce), .tag = tag};
  if (schedule == LinearSchedule::mm_rs_c_ag) {
    const at::Tensor output = product.all();
    return launched(output, axes, tag, ranks.fused({output, output, product.owner}, options));
  }
  const at::Tensor output = at::empty({product.rows, product.width}, product.options);
  Production production(written_, parts_of(product, ranks.group()));
  options.production = &production;
  const Request request = ranks.fused({output, output, product.owner}, options);
  produce(product, output, production);
  return launched(output, axes, tag, request);
}

Pending Scheduler::all_gather(const at::Tensor& input, AxisSet axes, std::string_view tag) {
  std::vector<int64_t> shape = input.sizes().vec();
  shape.insert(shape.begin(), grid_.shape().size(axes));
  if (shape[0] == 1) return Pending(input.unsqueeze(0));
  check_open();
  at::Tensor output = at::empty(shape, input.options());
  Request request = communicators_[axes].all_gather(input.contiguous(), output, {},
                                                    {.priority = queue_of(Traffic::all_reduce), .tag = tag});
  return launched(std::move(output), axes, tag, std::move(request));
}

Pending Scheduler::launched(at::Tensor tensor, AxisSet axes, std::string_view tag, Request request) {
  const size_t bytes = tensor.nbytes();
  return launched(std::move(tensor), bytes, axes, tag, std::move(request));
}

Pending Scheduler::launched(at::Tensor tensor, size_t bytes, AxisSet axes, std::string_view tag, Request request) {
  const auto whole = static_cast<int64_t>(bytes);
  Pending pending(std::move(tensor), log_, log_.launch(Traffic::all_reduce, axes, whole, tag, std::move(request)));
  return policy_.switches.all_reduce ? std::move(pending) : Pending(pending.wait());
}

void Scheduler::begin_step(int micro_batches) {
  check_open();
  AXONN_CHECK(!in_step_, "overlap.begin_step",
              "the step before has not been finished; call step.finish() after its backward passes, or step.abandon() "
              "after an error");
  AXONN_CHECK(micro_batches >= 1, "overlap.begin_step", "micro_batches must be at least 1, got ", micro_batches);
  erase_expired();
  communicators_.moment().set(steps_begun_ + 1, micro_batches);
  tell_listeners(&StepListener::step_begins);
  in_step_ = true;
  ++steps_begun_;
  micro_batches_ = micro_batches;
  backwards_ = 0;
  in_backward_pass_ = false;
  phase_ = Phase::train;
  linear_counts_ = {};
  log_.begin_step();
  for (const auto& network : networks_) {
    network->rests_ = network->resting_ > 0;
    network->gradients_->begin_step(micro_batches);
    network->weights_->begin_step();
  }
  tell_listeners(&StepListener::step_begun);
}

template <typename... Arguments>
void Scheduler::tell_listeners(void (StepListener::*what)(Arguments...), Arguments... arguments) {
  for (const auto& network : networks_)
    if (const auto listener = network->listener_.lock()) (*listener.*what)(arguments...);
}

// A forward after a backward opens the next micro-batch.
void Scheduler::enter(Phase phase) {
  phase_ = phase;
  if (phase != Phase::backward && phase != Phase::recompute) {
    in_backward_pass_ = false;
  } else if (!in_backward_pass_) {
    in_backward_pass_ = true;
    ++backwards_;
  }
}

void Scheduler::finish() {
  check_open();
  AXONN_CHECK(in_step_, "overlap.finish", "no step has begun; call context.begin_step() before the forward pass");
  erase_expired();
  tell_listeners(&StepListener::step_ends);
  std::string wrong;
  auto trained = networks_ | std::views::filter([](const auto& network) { return !network->rests_; });
  for (const auto& network : trained)
    if (const std::string some = network->gradients_->missing_gradients(); !some.empty())
      wrong += (wrong.empty() ? "" : ", ") + some;
  AXONN_CHECK(wrong.empty(), "overlap.finish", "the step ends without the gradient of ", wrong);
  in_step_ = false;
  phase_ = Phase::evaluate;
  // The buckets that backward has not sent. A StepOptimizer sums them, and may update weights too.
  for (const auto& network : trained) network->gradients_->send_rest();
  for (const auto& network : trained) network->gradients_->wait();
  tell_listeners(&StepListener::step_over, true);
  communicators_.moment().set(steps_begun_, /*micro_batches=*/0);
  log_.end_step();
}

void Scheduler::abandon() {
  check_open();
  AXONN_CHECK(in_step_, "overlap.abandon",
              "no step has begun, so none can be given up; call step.abandon() between "
              "context.begin_step() and step.finish()");
  erase_expired();
  for (const auto& network : networks_)
    AXONN_CHECK(!network->optimizer_has_updated(), "overlap.abandon",
                "this step has changed weights during backward and cannot be given up; clip gradients, or choose "
                "schedule rs-opt-ag");
  in_step_ = false;
  phase_ = Phase::evaluate;
  log_.land();
  for (const auto& network : networks_) network->gradients_->abandon();
  tell_listeners(&StepListener::step_over, false);
  communicators_.moment().set(steps_begun_, /*micro_batches=*/0);
  log_.end_step();
}

GatherCounters Scheduler::gather_counters() const {
  GatherCounters sum;
  for (const auto& network : networks_) {
    const GatherCounters& one = network->weights_->counters();
    sum.gathers += one.gathers;
    sum.blocking += one.blocking;
    sum.useless += one.useless;
  }
  return sum;
}

}  // namespace axonn
