#include "tune/schedule_key.hpp"

#include <algorithm>
#include <map>

#include "axonn/coconet/text/program_text.hpp"
#include "axonn/coconet/plan/schedule_plan.hpp"
#include "axonn/core/error.hpp"

namespace axonn::tune {
namespace {

coconet::Program with_section_numbers(const coconet::Program& program) {
  coconet::ProgramParts parts = program.parts();
  std::map<std::string, std::string> names;
  for (const coconet::Statement& statement : program.statements())
    if (const coconet::Section* section = program.section_of(statement.name))
      names.emplace(section->name, "section." + std::to_string(names.size() + 1));
  for (coconet::Section& section : parts.sections) {
    if (const auto name = names.find(section.name); name != names.end()) section.name = name->second;
    for (std::string& member : section.members)
      if (const auto name = names.find(member); name != names.end()) member = name->second;
    if (section.kind == coconet::SectionKind::fuse) std::ranges::sort(section.members);  // an overlap's are in order
  }
  std::ranges::sort(parts.sections, {}, &coconet::Section::name);
  return coconet::Program(std::move(parts));
}

std::string access_text(const coconet::SchedulePlan& plan, const std::vector<coconet::PlanAccess>& accesses) {
  std::string text;
  for (const coconet::PlanAccess& access : accesses)
    text += " " + plan.name(access.buffer) + std::to_string(static_cast<int>(access.extent));
  return text;
}

// A plan's run in an executor, without names of sections, and without the dims that are cut where
// it cuts the flat tensor.
std::string run_text(const coconet::SchedulePlan& plan) {
  std::string text;
  for (const coconet::PlanBuffer& buffer : plan.buffers()) {
    const coconet::Distribution& lies = buffer.type.distribution;
    text += plan.name(buffer.value) + " " + std::string(axonn::to_string(buffer.type.element)) +
            to_string(buffer.type.shape) + std::to_string(static_cast<int>(lies.placement)) +
            (buffer.overwritten ? " overwritten" : "") +
            (buffer.by_dim ? " cut along " + std::to_string(lies.dim) : "") + "\n";
  }
  for (const coconet::PlanStep& step : plan.steps()) {
    const auto role = [&](coconet::ValueId statement) { return statement ? plan.name(statement) : ""; };
    text += std::string(axonn::to_string(step.kind)) + " " + role(step.reducer) + "," + role(step.mover) + "," +
            role(step.arrival) + (step.by_parts ? " while the step before it runs:" : ":");
    for (const coconet::ValueId statement : step.statements) text += " " + plan.name(statement);
    text += ";" + access_text(plan, step.reads) + ";" + access_text(plan, step.writes) + ";";
    for (const size_t other : step.after) text += " " + std::to_string(other);
    text += "\n";
  }
  // The statements by their operations: a name may stand for another computation.
  for (const coconet::Statement& statement : plan.program().statements())
    text += statement.name + " " + std::string(info(statement.expression.operation()).name) + "\n";
  return text;
}

}  // namespace

std::string canonical_text(const coconet::Program& program) { return to_text(with_section_numbers(program)); }

std::string run_key(const coconet::Program& program) {
  try {
    return run_text(coconet::SchedulePlan(program));
  } catch (const UserError&) {
    return "";
  }
}

}  // namespace axonn::tune
