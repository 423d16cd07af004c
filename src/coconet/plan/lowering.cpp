#include "coconet/plan/lowering.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "axonn/core/error.hpp"
#include "coconet/plan/overlap_check.hpp"
#include "coconet/plan/roles.hpp"
#include "coconet/plan/step_accesses.hpp"

namespace axonn::coconet {
namespace {

constexpr const char* kWhere = "coconet.plan";

}  // namespace

std::vector<PlanStep> Lowering::run() {
  std::vector<bool> done(plan_.values().size());
  for (const ValueId id : plan_.values().statements()) {
    if (done[id.index()]) continue;
    std::string name = plan_.name(id);
    for (const Section* section = program_.section_of(name); section != nullptr; section = program_.section_of(name))
      name = section->name;
    for (const ValueId inside : statements_of(name)) done[inside.index()] = true;
    add_section(name);
  }
  add_waits(plan_, steps_);
  return std::move(steps_);
}

std::vector<ValueId> Lowering::statements_of(const std::string& member) const {
  std::vector<ValueId> statements;
  for (const std::string& name : program_.statements_of(member)) statements.push_back(plan_.values().find(name));
  return statements;
}

// A number that is made of the program's scalars is computed once, before its section begins. A
// statement that only stores a value that the section gathers follows it.
void Lowering::add_section(const std::string& name) {
  const std::vector<ValueId> statements = statements_of(name);
  for (const ValueId one : statements)
    if (is_plain(plan_[one])) add_step({one}, plan_.name(one));
  const Section* const section = program_.find_section(name);
  if (section != nullptr && section->kind == SectionKind::overlap)
    add_overlap(*section, statements);
  else
    add_member(name, statements);
  for (const ValueId one : statements)
    if (stores_a_gather(one, statements)) add_step({one}, plan_.name(one));
}

void Lowering::add_member(const std::string& name, const std::vector<ValueId>& section) {
  std::vector<ValueId> inside = statements_of(name);
  std::erase_if(inside, [&](ValueId one) { return is_plain(plan_[one]) || stores_a_gather(one, section); });
  if (!inside.empty()) add_step(inside, name);
}

void Lowering::add_overlap(const Section& overlap, const std::vector<ValueId>& statements) {
  if (sends(program_, overlap)) return add_transfer(overlap);
  const size_t first = steps_.size();
  for (const std::string& member : overlap.members) add_member(member, statements);
  OverlapCheck(plan_, overlap, std::span(steps_).subspan(first)).run();
  steps_.back().by_parts = true;
}

void Lowering::add_transfer(const Section& overlap) {
  PlanStep step{.kind = StepKind::transfer, .name = overlap.name, .statements = {}};
  for (const ValueId one : statements_of(overlap.name)) {
    if (is_plain(plan_[one])) continue;
    const Expression& root = root_of(one);
    step.statements.push_back(one);
    if (reduces(root) && !step.reducer) step.reducer = one;
    if (root.is(Operation::send) && !step.mover) step.mover = one;
    if (root.is(Operation::all_gather)) step.arrival = one;
  }
  step.group = group_of(step.mover);
  TransferCheck(plan_, overlap, step).run();
  add_accesses(plan_, step);
  steps_.push_back(std::move(step));
}

// An update whose value was computed in the tensor's place: nothing is left to do.
bool Lowering::is_stored_already(ValueId id) const {
  const PlanValue& value = plan_[id];
  return value.expression.is(Operation::update) && value.operands[1] &&
         plan_.home(value.operands[1]) == plan_.home(value.operands[0]);
}

bool Lowering::is_view_in_place(ValueId id) const {
  if (!is_view(root_of(id))) return false;
  const BufferId whole = plan_.home(plan_[id].operands[0]);
  return whole && !plan_[whole].updated;
}

// Whether a statement stores what another one of its section gathers, in a place of its own.
bool Lowering::stores_a_gather(ValueId id, const std::vector<ValueId>& section) const {
  const PlanValue& value = plan_[id];
  return value.expression.is(Operation::update) && !is_stored_already(id) && value.operands[1] &&
         std::ranges::count(section, value.operands[1]) > 0 && moves(root_of(value.operands[1]));
}

void Lowering::assign_role(ValueId id, PlanStep& step) const {
  const Expression& root = root_of(id);
  if (reduces(root)) {
    AXONN_CHECK(!step.reducer, kWhere, "fuse ", step.name, ": needs at most one collective that reduces, got ",
                plan_.name(step.reducer), " and ", plan_.name(id));
    step.reducer = id;
  } else if (moves(root)) {
    AXONN_CHECK(!step.mover, kWhere, "fuse ", step.name, ": needs at most one collective that gathers or sends, got ",
                plan_.name(step.mover), " and ", plan_.name(id));
    step.mover = id;
  } else if (root.is(OperationKind::layer)) {
    step.kind = StepKind::layer;
  }
}

void Lowering::add_step(const std::vector<ValueId>& statements, const std::string& name) {
  PlanStep step{.name = name, .statements = {}};
  bool computes = false, numbers_only = true;
  const bool sections = statements.size() > 1;
  for (const ValueId id : statements) {
    if (is_stored_already(id) || (is_view_in_place(id) && !sections)) continue;
    const Expression& root = root_of(id);
    step.statements.push_back(id);
    assign_role(id, step);
    computes |= !reduces(root) && !moves(root) && !root.is(OperationKind::layer);
    numbers_only &= plan_[id].is_number() && !root.is(OperationKind::reduction);
  }
  if (step.statements.empty()) return;
  if (step.reducer || step.mover)
    step.kind = computes || (step.reducer && step.mover) ? StepKind::fused : StepKind::collective;
  else if (numbers_only)
    step.kind = StepKind::scalars;
  if (step.kind == StepKind::fused) check_section(step);
  if (step.statements.size() > 1) check_extents(step);
  step.group = group_of(step.statements.front());
  add_accesses(plan_, step);
  steps_.push_back(std::move(step));
}

// Executors run computations on finished sums at their owner, and before a gather or send.
void Lowering::check_section(const PlanStep& step) const {
  if (!step.reducer) return;
  AXONN_CHECK(!root_of(step.reducer).is(Operation::all_reduce), kWhere, "fuse ", step.name,
              ": every rank would compute all of it; ", "split(", plan_.name(step.reducer),
              ", reduce_scatter) and reorder it first");
  if (!step.mover) return;
  const Expression& mover = root_of(step.mover);
  AXONN_CHECK(mover.is(Operation::all_gather), kWhere, "fuse ", step.name,
              ": needs all_gather with reduce_scatter, got ", program_.written(mover));
}

// A section has one loop: over all elements, over this rank's part, or over all on a root.
void Lowering::check_extents(const PlanStep& step) const {
  const auto lies = [&](ValueId id) {
    const bool of_operand = id == step.mover || root_of(id).is(OperationKind::reduction);
    return (of_operand ? program_.type(root_of(id).operands()[0]) : plan_[id].type).distribution;
  };
  const auto is_host_number = [&](ValueId id) {
    return plan_[id].is_number() && !root_of(id).is(OperationKind::reduction);
  };
  const ValueId first = step.statements.front();
  for (const ValueId id : step.statements) {
    const Distribution a = lies(first), b = lies(id);
    const bool alike = extent_of(a) == extent_of(b) && a.root == b.root && is_host_number(first) == is_host_number(id);
    AXONN_CHECK(group_of(first) == group_of(id), kWhere, "fuse ", step.name, ": needs values of one group, got ",
                plan_.name(first), " on ", group_of(first), " and ", plan_.name(id), " on ", group_of(id),
                "; fuse those of each group");
    AXONN_CHECK(alike, kWhere, "fuse ", step.name, ": needs values that lie alike, got ", plan_.written(first), " ",
                a.to_string(), " and ", plan_.written(id), " ", b.to_string());
  }
}

// The group whose ranks compute a statement: a send's is the one that has its operand.
int Lowering::group_of(ValueId id) const {
  return (root_of(id).is(Operation::send) ? plan_[plan_[id].operands[0]] : plan_[id]).type.group;
}

}  // namespace axonn::coconet
