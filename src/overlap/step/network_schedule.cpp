#include "axonn/overlap/step/network_schedule.hpp"

#include "axonn/core/error.hpp"
#include "axonn/overlap/step/scheduler.hpp"
#include "overlap/step/gradient_reducer.hpp"
#include "overlap/step/weight_gatherer.hpp"

namespace axonn {

NetworkSchedule::NetworkSchedule(Scheduler& scheduler, const std::shared_ptr<Arena>& arena)
    : scheduler_(scheduler),
      arena_(arena),
      weights_(std::make_unique<WeightGatherer>(*arena, scheduler.communicators_, scheduler.policy_, scheduler.log_,
                                                scheduler.pool_)),
      gradients_(std::make_unique<GradientReducer>(*arena, scheduler.grid_, *scheduler.gradient_sums_,
                                                   scheduler.policy_, scheduler.log_, *scheduler.pool_)) {}

NetworkSchedule::~NetworkSchedule() = default;

GatheredWeight NetworkSchedule::gathered(const ArenaSlot& slot) {
  return gathered(arena_.lock()->bundles()[static_cast<size_t>(slot.bundle)]).part(slot.place, slot.block_shape);
}

GatheredWeight NetworkSchedule::gathered(const ArenaBundle& bundle) {
  scheduler_.check_open();
  return weights_->gathered(bundle, scheduler_.phase_,
                            /*update_follows=*/scheduler_.backwards_ >= scheduler_.micro_batches_);
}

void NetworkSchedule::weights_written() { weights_->written({}); }

void NetworkSchedule::weights_written(Request valid_at) {
  const auto arena = arena_.lock();
  weights_->written({{.range = {0, arena->size()}, .valid_at = {std::move(valid_at), nullptr}}});
}

void NetworkSchedule::weights_written(std::vector<WrittenRange> ranges) { weights_->written(std::move(ranges)); }

void NetworkSchedule::wait_for_weights() { weights_->wait_for_writers(); }

bool NetworkSchedule::optimizer_has_updated() const {
  return optimizer_ != nullptr && optimizer_->updates_with_sums() && gradients_->sends_buckets();
}

void NetworkSchedule::set_step_optimizer(std::shared_ptr<StepOptimizer> optimizer) {
  AXONN_CHECK(!scheduler_.in_step_, "overlap.set_step_optimizer",
              "an optimizer can enter or leave the step between steps only; call step.finish() first");
  gradients_->set_optimizer(optimizer.get());
  optimizer_ = std::move(optimizer);
}

void NetworkSchedule::use(const ArenaSlot& slot) {
  scheduler_.check_open();
  if (scheduler_.phase_ == Phase::recompute) return;
  AXONN_CHECK(scheduler_.in_step_, "overlap.use", "'", slot.name,
              "' is used under autograd outside a step; call context.begin_step() first, or hold a torch::NoGradGuard "
              "when no gradient is needed");
  scheduler_.in_backward_pass_ = false;
  if (!rests_) gradients_->use(slot);
}

void NetworkSchedule::check_in_step(const ArenaSlot& slot) const {
  scheduler_.check_open();
  AXONN_CHECK(scheduler_.in_step_, "overlap.reduce", "a gradient of '", slot.name,
              "' came outside a step; backward must run inside the step of its forward");
}

void NetworkSchedule::reduce(const ArenaSlot& slot, const std::function<void(const at::Tensor&, bool)>& write) {
  check_in_step(slot);
  if (!rests_) gradients_->reduce(slot, write);
}

void NetworkSchedule::reduce_pass(const ArenaSlot& slot, const at::Tensor& gradient) {
  check_in_step(slot);
  if (rests_) return;
  gradients_->use(slot);
  gradients_->reduce(slot, gradient);
}

std::string NetworkSchedule::without_gradient() const { return gradients_->without_gradient(); }

}  // namespace axonn
