#include "coconet/plan/step_accesses.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "coconet/plan/roles.hpp"

namespace axonn::coconet {
namespace {

void add(std::vector<PlanAccess>& accesses, const PlanAccess& access) {
  if (access.buffer && std::ranges::count(accesses, access) == 0) accesses.push_back(access);
}

void add_reads(const SchedulePlan& plan, const Expression& expression, PlanStep& step) {
  const auto add_read = [&](const Expression& reference, Extent extent) {
    const ValueId value = plan.values().of(reference);
    if (std::ranges::count(step.statements, value) == 0) add(step.reads, {plan.home(value), extent});
  };
  if (expression.is(Operation::reference))
    return add_read(expression, extent_of(plan[plan.values().of(expression)].type.distribution));
  if (is_view(expression))
    return add_read(expression.operands()[0], expression.is(Operation::slice) ? Extent::part : Extent::root);
  for (const Expression& operand : expression.operands()) add_reads(plan, operand, step);
}

// The step of each value, also of values that are stored already or are views.
std::vector<std::optional<size_t>> steps_of_values(const SchedulePlan& plan, const std::vector<PlanStep>& steps) {
  std::vector<std::optional<size_t>> step_of(plan.values().size());
  for (size_t i = 0; i < steps.size(); ++i)
    for (const ValueId id : steps[i].statements) step_of[id.index()] = i;
  for (const ValueId id : plan.values().statements())
    if (!step_of[id.index()]) step_of[id.index()] = step_of[plan[id].operands.back().index()];
  return step_of;
}

}  // namespace

Extent extent_of(const Distribution& lies) {
  return lies.is(Placement::sliced) ? Extent::part : lies.is(Placement::rooted) ? Extent::root : Extent::whole;
}

void add_accesses(const SchedulePlan& plan, PlanStep& step) {
  for (const ValueId id : step.statements) {
    const Expression& root = plan[id].expression;
    if (id == step.mover || id == step.reducer || id == step.arrival) continue;
    add_reads(plan, root.is(Operation::update) ? root.operands()[1] : root, step);
  }
  for (const ValueId id : step.statements) {
    const bool collective =
        id == step.mover || id == step.arrival || (id == step.reducer && step.kind == StepKind::collective);
    if (!collective) add(step.writes, {plan.home(id), extent_of(plan[id].type.distribution)});
  }
}

void add_waits(const SchedulePlan& plan, std::vector<PlanStep>& steps) {
  const std::vector<std::optional<size_t>> step_of = steps_of_values(plan, steps);
  std::vector<std::vector<size_t>> touched(plan.buffers().size());
  for (size_t i = 0; i < steps.size(); ++i) {
    PlanStep& step = steps[i];
    std::set<size_t> waits;
    std::set<BufferId> buffers;
    const auto touch = [&](BufferId buffer) {
      if (buffer) buffers.insert(buffer);
    };
    for (const ValueId id : step.statements) {
      for (const ValueId read : plan[id].references) {
        if (const auto source = step_of[read.index()]; source && *source < i) waits.insert(*source);
        touch(plan.home(read));
      }
      const BufferId home = plan.home(id);
      if (home) waits.insert(touched[home.index()].begin(), touched[home.index()].end());
      touch(home);
    }
    for (const BufferId buffer : buffers) touched[buffer.index()].push_back(i);
    if (step.by_parts) waits.erase(i - 1);  // it waits for its parts only
    step.after.assign(waits.begin(), waits.end());
  }
}

}  // namespace axonn::coconet
