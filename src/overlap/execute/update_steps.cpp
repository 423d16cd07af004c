#include "overlap/execute/update_steps.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <ATen/ops/tensor.h>

#include "axonn/core/error.hpp"

namespace axonn {
using namespace coconet;

UpdateSteps::UpdateSteps(const UpdateProgram& optimizer, UpdateSchedule chosen, UpdatedNetwork updated,
                         const RunSettings& settings, InstructionSet instruction_set)
    : network(updated),
      plan(optimizer.scheduled(chosen).program()),
      memory(plan, updated.arena, updated.grid, updated.rank),
      weights(updated, memory, plan.home(plan.value(optimizer.weights())), plan.home(plan.value(optimizer.master())),
              settings.segment_bytes),
      scheduler_(updated.schedule.scheduler()),
      gradients_(plan.value(optimizer.gradients())),
      gradient_norm_(plan.value(kGradientNorm)),
      segment_bytes_(settings.segment_bytes),
      done_(plan.steps().size()) {
  const LoopOptions loop{settings.threads, instruction_set};
  for (const PlanStep& step : plan.steps())
    loops_.push_back(step.computes() ? std::make_unique<StepLoop>(plan, step, memory, loop) : nullptr);
  find_steps();
}

void UpdateSteps::find_steps() {
  for (size_t i = 0; i < plan.steps().size(); ++i) {
    const PlanStep& step = plan.steps()[i];
    if (step.reducer && plan[step.reducer].operands[0] == gradients_) sums_step_ = i;
    if (std::ranges::count(step.statements, gradient_norm_) > 0) norm_step_ = i;
  }
  const PlanStep& sums = plan.steps()[sums_step_];
  updates_with_sums_ =
      sums.kind == StepKind::fused && std::ranges::any_of(sums.statements, [&](ValueId one) {
        return plan[one].type.distribution.is(coconet::Placement::sliced) && plan.home(one) && one != sums.reducer;
      });
}

void UpdateSteps::hook_sums() {
  if (plan[plan.steps()[sums_step_].reducer].expression.is(Operation::all_reduce)) return;
  network.schedule.sum_buckets_by(
      [self = shared_from_this()](const GradientBucket& bucket) { return self->sum(bucket); }, updates_with_sums_);
}

void UpdateSteps::begin_cycle() {
  if (std::exchange(summed_step_, scheduler_.steps_begun()) == scheduler_.steps_begun()) return;
  AXONN_CHECK(!updates_with_sums_ || prepared_, "overlap.update", plan.program().name(),
              ": this schedule updates weights during backward; call prepare() of the optimizer before it");
  std::fill(done_.begin(), done_.end(), false);
  for (const size_t before : plan.steps()[sums_step_].after) run(before);
  if (StepLoop* loop = loops_[sums_step_].get()) loop->begin();
}

double UpdateSteps::gradient_norm(bool poisoned) {
  begin_cycle();
  summed_step_ = -1;
  prepared_ = false;
  poisoned_ = poisoned;
  run(norm_step_);
  poisoned_ = false;
  return memory.number(gradient_norm_).value();
}

void UpdateSteps::run_rest() {
  written_.clear();
  for (size_t i = 0; i < plan.steps().size(); ++i) run(i);
  weights.hand_over(std::exchange(written_, {}));
}

Request UpdateSteps::sum(const GradientBucket& bucket) {
  begin_cycle();
  FusedCollective collective{.contributions = memory.elements(memory.buffer(plan.home(gradients_)), bucket.range),
                             .results = {}};
  if (const ValueId mover = plan.steps()[sums_step_].mover)
    collective.results = memory.elements(memory.buffer(plan.home(mover)), bucket.range);
  if (StepLoop* loop = loops_[sums_step_].get())
    collective.epilogue = loop->epilogue(bucket.range.begin, shared_from_this());
  return network.communicators[bucket.axes].fused(collective, {.priority = queue_of(Traffic::data),
                                                               .after = bucket.after,
                                                               .tag = "gradients",
                                                               .arena_offset = bucket.range.begin,
                                                               .segment_bytes = segment_bytes_});
}

void UpdateSteps::run(size_t index) {
  if (done_[index]) return;
  const PlanStep& step = plan.steps()[index];
  for (const size_t before : step.after) run(before);
  done_[index] = true;
  StepLoop* loop = loops_[index].get();
  if (index == sums_step_) return run_sums(loop);
  if (step.mover) return run_gather(step, loop);
  if (step.kind == StepKind::collective) {
    const PlanValue& all = plan[step.reducer];
    return combine(step.reducer, all.operands[0], all.expression.attributes().reduction, /*root=*/false);
  }
  if (step.kind != StepKind::scalars) return run_kernel(*loop);
  loop->begin();
  loop->run_numbers();
}

// The buckets are summed; regions that one rank holds have no buckets.
void UpdateSteps::run_sums(StepLoop* loop) {
  if (loop == nullptr) return;
  run_unshared(*loop);
  loop->finish();
}

void UpdateSteps::run_kernel(StepLoop& loop) {
  loop.begin();
  loop.run_all();
  loop.finish();
  combine_sums(loop);
}

// Chunk by chunk, in the order in which the next forward pass needs the weights.
void UpdateSteps::run_gather(const PlanStep& step, StepLoop* loop) {
  if (loop != nullptr) loop->begin();
  const ArenaMemory::Buffer& gathered = memory.buffer(plan.home(step.mover));
  for (const UpdateChunk& chunk : weights.chunks())
    written_.push_back(weights.gather(
        gathered, chunk, loop == nullptr ? Epilogue() : loop->epilogue(chunk.range.begin, shared_from_this())));
  if (loop == nullptr) return;
  run_unshared(*loop);
  if (loop->kernel().sums.empty()) return;
  for (const WrittenRange& range : written_) scheduler_.wait(range.valid_at);  // then all elements are reduced
  loop->finish();
  combine_sums(*loop);
}

void UpdateSteps::combine_sums(const StepLoop& loop) {
  for (const StepKernel::Sum& sum : loop.kernel().sums) {
    if (plan[sum.statement].type.distribution.is(coconet::Placement::local))
      continue;  // a later statement adds the ranks' results
    combine(sum.statement, sum.statement, sum.reduction, sum.is_norm);
  }
}

// The results of all ranks, each of which has reduced what it owns.
void UpdateSteps::combine(ValueId statement, ValueId partial, ReduceOp reduction, bool root) {
  at::Tensor results = at::tensor(at::ArrayRef<double>(memory.partials(partial)), at::kDouble);
  if (poisoned_) results.fill_(std::numeric_limits<double>::quiet_NaN());
  results = scheduler_.all_reduce(results, AxisSet::all(), plan.name(statement), reduction).wait();
  const std::span<double> numbers(results.mutable_data_ptr<double>(), static_cast<size_t>(results.numel()));
  if (root)  // correctly rounded, as in a stage; a library's is not always
    for (double& number : numbers) number = std::sqrt(number);
  if (plan[statement].type.is_scalar())
    memory.set(statement, numbers[0]);
  else
    memory.buffer(plan.home(statement)).data.copy_(results);
}

}  // namespace axonn
