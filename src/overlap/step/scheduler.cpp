#include "axonn/overlap/step/scheduler.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>

#include "axonn/core/error.hpp"
#include "overlap/step/gradient_reducer.hpp"
#include "overlap/step/weight_gatherer.hpp"

namespace axonn {

struct Scheduler::Network {
  Network(Scheduler& scheduler, const std::shared_ptr<Arena>& of)
      : arena(of),
        key(of.get()),
        weights(*of, scheduler.communicators_, scheduler.policy_, scheduler.log_, scheduler.pool_),
        gradients(of, scheduler.grid_, scheduler.gradient_sums_, scheduler.policy_, scheduler.log_, scheduler.pool_) {}

  std::weak_ptr<Arena> arena;
  const Arena* key;
  WeightGatherer weights;
  GradientReducer gradients;
};

Scheduler::Scheduler(Communicators& communicators, const Grid& grid, OverlapPolicy policy)
    : communicators_(communicators), grid_(grid), gradient_sums_(std::make_shared<GradientSums>(communicators)) {
  set_policy(policy);
}

Scheduler::~Scheduler() = default;

void Scheduler::set_policy(const OverlapPolicy& policy) {
  AXONN_CHECK(!in_step_, "overlap.set_policy", "the overlap policy can change between steps alone; call step.finish() first");
  AXONN_CHECK(policy.prefetch >= 1 && policy.outstanding >= 1 && policy.bucket_bytes >= 0 && policy.cache_budget.bytes >= 0, "overlap.scheduler",
              "prefetch and outstanding must be at least 1, bucket and cache sizes not negative; got ", policy.prefetch, ", ",
              policy.outstanding, ", ", policy.bucket_bytes, ", ", policy.cache_budget.bytes);
  forget_the_gone();
  policy_ = policy;
  for (const auto& network : networks_) {
    network->weights.policy_changed();
    network->gradients.policy_changed();
  }
}

void Scheduler::add(const std::shared_ptr<Arena>& arena) {
  forget_the_gone();
  networks_.push_back(std::make_unique<Network>(*this, arena));
}

void Scheduler::forget_the_gone() {
  std::erase_if(networks_, [](const auto& network) { return network->arena.expired(); });
}

Scheduler::Network& Scheduler::network(const Arena& arena) {
  const auto found = std::ranges::find_if(networks_, [&](const auto& network) { return network->key == &arena; });
  AXONN_ASSERT(found != networks_.end(), "an arena that was never added");
  return **found;
}

GatheredWeight Scheduler::gathered(const Arena& arena, const ArenaSlot& slot) {
  return network(arena).weights.gathered(slot, phase_, /*update_follows=*/backwards_ >= micro_batches_);
}

void Scheduler::weights_written(const Arena& arena, Request valid_at) { network(arena).weights.written(std::move(valid_at)); }

Pending Scheduler::all_reduce(at::Tensor tensor, AxisSet axes, std::string_view tag, ReduceOp op) {
  if (grid_.shape().size(axes) == 1) return Pending(std::move(tensor));
  Request request = communicators_[axes].all_reduce(tensor, op, {.priority = queue_of(Traffic::all_reduce), .tag = tag});
  return launched(std::move(tensor), axes, tag, std::move(request));
}

Pending Scheduler::all_gather(const at::Tensor& input, AxisSet axes, std::string_view tag) {
  std::vector<int64_t> shape = input.sizes().vec();
  shape.insert(shape.begin(), grid_.shape().size(axes));
  if (shape[0] == 1) return Pending(input.unsqueeze(0));
  at::Tensor output = at::empty(shape, input.options());
  Request request =
      communicators_[axes].all_gather(input.contiguous(), output, {}, {.priority = queue_of(Traffic::all_reduce), .tag = tag});
  return launched(std::move(output), axes, tag, std::move(request));
}

Pending Scheduler::launched(at::Tensor tensor, AxisSet axes, std::string_view tag, Request request) {
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  Pending pending(std::move(tensor), log_, log_.launch(Traffic::all_reduce, axes, bytes, tag, std::move(request)));
  return policy_.switches.all_reduce ? std::move(pending) : Pending(pending.wait());
}

void Scheduler::begin_step(int micro_batches) {
  AXONN_CHECK(!in_step_, "overlap.begin_step", "the step before has not been finished; call step.finish() after its backward passes");
  AXONN_CHECK(micro_batches >= 1, "overlap.begin_step", "micro_batches must be at least 1, got ", micro_batches);
  forget_the_gone();
  in_step_ = true;
  micro_batches_ = micro_batches;
  backwards_ = 0;
  in_backward_pass_ = false;
  phase_ = Phase::train;
  log_.begin_step();
  for (const auto& network : networks_) {
    network->gradients.begin_step(micro_batches);
    network->weights.begin_step();
  }
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

void Scheduler::use(const Arena& arena, ArenaSlot& slot) {
  if (phase_ == Phase::recompute) return;
  AXONN_CHECK(
      in_step_, "overlap.use", "'", slot.name,
      "' is used under autograd outside a step; call context.begin_step() first, or hold a torch::NoGradGuard when no gradient is needed");
  in_backward_pass_ = false;
  network(arena).gradients.use(slot);
}

void Scheduler::reduce(Arena& arena, ArenaSlot& slot, const std::function<void(const at::Tensor&, bool)>& write) {
  AXONN_CHECK(in_step_, "overlap.reduce", "a gradient of '", slot.name,
              "' came outside a step; backward must run inside the step of its forward");
  network(arena).gradients.reduce(slot, write);
}

void Scheduler::finish() {
  AXONN_CHECK(in_step_, "overlap.finish", "no step has begun; call context.begin_step() before the forward pass");
  in_step_ = false;
  phase_ = Phase::evaluate;
  forget_the_gone();
  std::string wrong;
  for (const auto& network : networks_)
    if (const std::string some = network->gradients.complaints(); !some.empty()) wrong += (wrong.empty() ? "" : ", ") + some;
  AXONN_CHECK(wrong.empty(), "overlap.finish", "the step ends without the gradient of ", wrong);
  for (const auto& network : networks_) network->gradients.send_rest();
  for (const auto& network : networks_) network->gradients.wait();
  log_.end_step();
}

GatherCounters Scheduler::gather_counters() const {
  GatherCounters sum;
  for (const auto& network : networks_) {
    const GatherCounters& one = network->weights.counters();
    sum.gathers += one.gathers;
    sum.blocking += one.blocking;
    sum.useless += one.useless;
  }
  return sum;
}

}  // namespace axonn
