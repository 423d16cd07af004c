#include "axonn/overlap/execute/update_executor.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include "overlap/execute/update_steps.hpp"

namespace axonn {
using namespace coconet;

UpdateExecutor::UpdateExecutor(const UpdateProgram& program, UpdateSchedule schedule, UpdatedNetwork network,
                               const RunSettings& settings, InstructionSet instruction_set)
    : steps_(std::make_shared<UpdateSteps>(program, schedule, network, settings, instruction_set)) {
  steps_->hook_sums();
}

UpdateExecutor::~UpdateExecutor() {
  try {
    steps_->network.schedule.wait_for_weights();
    steps_->network.schedule.sum_buckets_by(nullptr);
  } catch (const std::exception&) {
    // A step or a collective has failed, and this error is on its way.
  }
}

void UpdateExecutor::set(std::string_view scalar, double value) { steps_->memory.set(scalar, value); }

void UpdateExecutor::set_rows(std::string_view tensor, std::span<const double> values) {
  const at::Tensor& rows = steps_->buffer(tensor).data;
  rows.copy_(at::tensor(at::ArrayRef<double>(values.data(), values.size()), at::kDouble));
}

bool UpdateExecutor::updates_with_sums() const { return steps_->updates_with_sums(); }

void UpdateExecutor::prepare() {
  steps_->network.schedule.wait_for_weights();
  steps_->prepare();
}

double UpdateExecutor::gradient_norm(bool poisoned) {
  const at::NoGradGuard no_grad;
  steps_->network.schedule.wait_for_weights();
  return steps_->gradient_norm(poisoned);
}

void UpdateExecutor::update() {
  const at::NoGradGuard no_grad;
  steps_->run_rest();
}

void UpdateExecutor::master_changed() {
  const at::NoGradGuard no_grad;
  steps_->weights.publish(steps_->weights.stores_own(steps_->weights.master()));
}

void UpdateExecutor::fill(std::string_view tensor, double value) {
  const at::NoGradGuard no_grad;
  steps_->network.schedule.wait_for_weights();
  steps_->buffer(tensor).data.fill_(value);
}

void UpdateExecutor::copy_master_to(std::string_view tensor) {
  const at::NoGradGuard no_grad;
  steps_->weights.for_each_stored(steps_->home(tensor),
                                  [](const at::Tensor& master, const at::Tensor& other) { other.copy_(master); });
}

void UpdateExecutor::exchange_master(std::string_view tensor) {
  const at::NoGradGuard no_grad;
  steps_->weights.for_each_stored(steps_->home(tensor), [](const at::Tensor& master, const at::Tensor& other) {
    const at::Tensor kept = master.clone();
    master.copy_(other);
    other.copy_(kept);
  });
  steps_->weights.publish(steps_->weights.stores_own(steps_->home(tensor)));
}

std::vector<UpdateExecutor::State> UpdateExecutor::state() const {
  std::vector<State> all;
  const auto add = [&](BufferId tensor) {
    const ArenaMemory::Buffer& buffer = steps_->memory.buffer(tensor);
    all.push_back({steps_->plan.name(tensor), buffer.data, buffer.kind == ArenaMemory::Kind::own});
  };
  const BufferId master = steps_->weights.master(), weights = steps_->weights.weights();
  add(master);
  for (const ValueId id : steps_->plan.values().declarations())
    if (const BufferId tensor = steps_->plan.home(id);
        tensor && steps_->plan[tensor].updated && tensor != master && tensor != weights)
      add(tensor);
  return all;
}

const SchedulePlan& UpdateExecutor::plan() const { return steps_->plan; }

}  // namespace axonn
