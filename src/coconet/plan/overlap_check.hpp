#pragma once

#include <span>
#include <string>

#include "axonn/coconet/plan/schedule_plan.hpp"

namespace axonn::coconet {

// Whether the steps of an overlap are what executors run: a producer, and a collective that reads
// its parts while others are written. The parts are contiguous shares of the ranks, in the order of
// the collective's messages. UserError with the cure, if not.
class OverlapCheck {
 public:
  OverlapCheck(const SchedulePlan& plan, const Section& overlap, std::span<const PlanStep> steps)
      : plan_(plan), program_(plan.program()), name_("overlap " + overlap.name + ": "), steps_(steps) {}
  void run() const;

 private:
  void check_pair() const;
  void check_producer(const PlanStep& producer) const;
  void check_collective(const PlanStep& collective) const;
  const Expression& root_of(ValueId statement) const { return plan_[statement].expression; }
  // The value whose parts are handed over.
  ValueId summed() const { return plan_[steps_.back().reducer].operands[0]; }

  const SchedulePlan& plan_;
  const Program& program_;
  const std::string name_;
  const std::span<const PlanStep> steps_;
};

// Whether an overlap with a send is what executors run as one step: a reduce_scatter or nothing,
// computations fused with the send of slices, and the all_gather of what was sent. UserError with
// the cure, if not.
class TransferCheck {
 public:
  TransferCheck(const SchedulePlan& plan, const Section& overlap, const PlanStep& step)
      : plan_(plan), program_(plan.program()), name_("overlap " + overlap.name + ": "), step_(step) {}
  void run() const;

 private:
  void check_members() const;
  void check_slices() const;
  const Expression& root_of(ValueId statement) const { return plan_[statement].expression; }
  bool is_computed(ValueId statement) const {
    return statement != step_.reducer && statement != step_.mover && statement != step_.arrival;
  }

  const SchedulePlan& plan_;
  const Program& program_;
  const std::string name_;
  const PlanStep& step_;
};

}  // namespace axonn::coconet
