#pragma once

#include <string>
#include <vector>

#include "axonn/coconet/plan/schedule_plan.hpp"

namespace axonn::coconet {

// Makes the steps of a plan that knows where its values lie: one per section or statement.
class Lowering {
 public:
  explicit Lowering(const SchedulePlan& plan) : plan_(plan), program_(plan.program()) {}
  std::vector<PlanStep> run();

 private:
  void add_section(const std::string& name);
  void add_member(const std::string& name, const std::vector<ValueId>& section);
  void add_overlap(const Section& overlap, const std::vector<ValueId>& statements);
  void add_transfer(const Section& overlap);
  void add_step(const std::vector<ValueId>& statements, const std::string& name);
  void assign_role(ValueId id, PlanStep& step) const;
  void check_section(const PlanStep& step) const;
  void check_extents(const PlanStep& step) const;

  std::vector<ValueId> statements_of(const std::string& member) const;
  const Expression& root_of(ValueId id) const { return plan_[id].expression; }
  bool is_stored_already(ValueId id) const;
  bool is_view_in_place(ValueId id) const;
  bool stores_a_gather(ValueId id, const std::vector<ValueId>& section) const;
  int group_of(ValueId id) const;

  const SchedulePlan& plan_;
  const Program& program_;
  std::vector<PlanStep> steps_;
};

}  // namespace axonn::coconet
