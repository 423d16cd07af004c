#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "axonn/comm/production.hpp"
#include "overlap/execute/executor_ranks.hpp"
#include "overlap/execute/flat_memory.hpp"
#include "overlap/execute/step_loop.hpp"

namespace axonn {

// The steps of a plan on one rank, for flat tensors. It refers to what it is made of.
class PlanSteps {
 public:
  PlanSteps(const coconet::SchedulePlan& plan, ExecutorRanks& everyone, FlatMemory& memory,
            const ExecutorOptions& options);
  // All steps of the rank's group, and what it receives.
  void run();

 private:
  static constexpr int64_t kPartBytes = 480 << 10;  // a computed part: 8 messages

  const coconet::Expression& root_of(coconet::ValueId statement) const { return plan_[statement].expression; }
  // The place of the value that a statement sums, gathers or sends.
  coconet::BufferId source_of(coconet::ValueId statement) const { return plan_.home(plan_[statement].operands[0]); }
  const FlatMemory::Buffer& home(coconet::ValueId value) const { return memory_.buffer(plan_.home(value)); }
  bool is_mine(const coconet::PlanStep& step) const {
    return step.group == everyone_.number() || step.group == coconet::TensorType::kEveryGroup;
  }
  // The group that a step sends to; its own one if it sends nothing.
  int receiver_of(const coconet::PlanStep& step) const {
    return step.mover ? plan_[step.mover].type.group : step.group;
  }
  // Whether this rank has the step's value, which may lie on one rank only.
  bool holds(const coconet::PlanStep& step) const;
  CollectiveOptions collective_options(const std::string& tag) const;

  void run_step(size_t index);
  void run_kernel(const coconet::PlanStep& step, StepLoop& loop);
  void run_layer(const coconet::PlanStep& step);
  void run_fused(const coconet::PlanStep& step, StepLoop& loop);
  void run_send(const coconet::PlanStep& step);
  void run_transfer(const coconet::PlanStep& step, StepLoop* loop);
  void run_overlapped(size_t producer);
  void produce_parts(size_t producer, const at::Tensor& contributions, const std::function<void(Production&)>& launch);
  FusedCollective fused_of(const coconet::PlanStep& step, StepLoop* loop);

  void run_collective(coconet::ValueId statement);
  void run_in_place(coconet::ValueId statement);
  void run_reduce_scatter(coconet::ValueId statement);
  void run_all_gather(coconet::ValueId statement);

  const coconet::SchedulePlan& plan_;
  ExecutorRanks& everyone_;
  Communicator& ranks_;  // this rank's group
  FlatMemory& memory_;
  const ExecutorOptions& options_;
  std::vector<std::unique_ptr<StepLoop>> loops_;  // per step; null: it computes nothing
  const std::shared_ptr<ProducerCounter> written_ = std::make_shared<ProducerCounter>();
};

}  // namespace axonn
