#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "axonn/overlap/step/step_optimizer.hpp"
#include "overlap/execute/step_loop.hpp"
#include "overlap/execute/update_weights.hpp"

namespace axonn {

// The steps of an update on one rank. A cycle of them belongs to a step of the scheduler: it begins
// with the first bucket that is summed, or with the norm. Collectives that are under way hold it.
class UpdateSteps final : public StepOptimizer, public std::enable_shared_from_this<UpdateSteps> {
 public:
  UpdateSteps(const coconet::UpdateProgram& optimizer, const coconet::Program& scheduled, UpdatedNetwork updated,
              const coconet::RunSettings& settings, coconet::InstructionSet instruction_set);

  // Sums over replicas are this program's: plain all-reduces stay the network's own.
  void enter_step();
  Request sum_and_update(const GradientBucket& bucket) override;
  bool updates_with_sums() const override { return updates_with_sums_; }
  void prepare() { prepared_ = true; }  // the numbers of a cycle are set
  // The place of a declared tensor.
  coconet::BufferId home(std::string_view tensor) const { return plan.home(plan.value(tensor)); }
  const ArenaMemory::Buffer& buffer(std::string_view tensor) const { return memory.buffer(home(tensor)); }
  // The norm, after all that it waits for; `poisoned`: this rank gives NaN to every reduction.
  double gradient_norm(bool poisoned);
  void run_rest();

  UpdatedNetwork network;
  const coconet::SchedulePlan plan;
  ArenaMemory memory;
  UpdateWeights weights;

 private:
  void find_steps();

  void begin_cycle();
  void run(size_t index);
  void run_sums(StepLoop* loop);
  void run_kernel(StepLoop& loop);
  void run_gather(const coconet::PlanStep& step, StepLoop* loop);
  void run_unshared(StepLoop& loop) { loop.run_tasks(memory.tasks(loop.kernel(), /*unshared=*/true)); }
  void combine_sums(const StepLoop& loop);
  void combine(coconet::ValueId statement, coconet::ValueId partial, ReduceOp reduction, bool root);

  Scheduler& scheduler_;
  coconet::ValueId gradients_, gradient_norm_;
  int64_t segment_bytes_;
  std::vector<std::unique_ptr<StepLoop>> loops_;  // per step; null: it computes nothing
  std::vector<bool> done_;                        // per step, in this cycle
  size_t sums_step_ = 0, norm_step_ = 0;
  int64_t summed_step_ = -1;  // the step whose sums have begun; -1: none
  bool poisoned_ = false, updates_with_sums_ = false, prepared_ = false;
  std::vector<WrittenRange> written_;
};

}  // namespace axonn
