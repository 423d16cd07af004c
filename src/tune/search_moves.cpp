#include "tune/search_moves.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "axonn/core/error.hpp"
#include "tune/schedule_key.hpp"

namespace axonn::tune {
namespace {

using Kind = coconet::TransformationKind;

// A statement that only stores another one's value, such as reorder makes of updates. It goes where
// the value goes.
bool only_stores(const coconet::Program& program, const coconet::Statement& statement) {
  const coconet::Expression& root = statement.expression;
  return root.is(coconet::Operation::update) && root.operands()[1].is(coconet::Operation::reference) &&
         program.find_statement(root.operands()[1].name()) != nullptr;
}

bool slices(const coconet::Expression& expression, const std::string& tensor) {
  if (expression.is(coconet::Operation::slice)) return expression.refers_to(tensor);
  return std::ranges::any_of(expression.operands(),
                             [&](const coconet::Expression& each) { return slices(each, tensor); });
}

}  // namespace

bool is_small(const coconet::Program& program, const coconet::Statement& statement) {
  const coconet::Expression& root = statement.expression;
  const auto has_one_number = [](const coconet::Shape& shape) {
    return shape.empty() || std::ranges::any_of(shape, [](const coconet::Size& size) { return size.is_one(); });
  };
  return has_one_number(program.type(statement.name).shape) && !root.is(coconet::OperationKind::reduction);
}

std::vector<Unit> units_of(const coconet::Program& program) {
  std::vector<Unit> units;
  for (const coconet::Statement& statement : program.statements()) {
    const coconet::Section* section = program.section_of(statement.name);
    const coconet::Expression& root = statement.expression;
    if (section == nullptr && (only_stores(program, statement) || is_small(program, statement))) continue;
    const std::string& name = section == nullptr ? statement.name : section->name;
    if (units.empty() || units.back().name != name) units.push_back({name});
    const bool computes = !root.is(coconet::OperationKind::collective) && !root.is(coconet::OperationKind::send) &&
                          !root.is(coconet::OperationKind::layer);
    units.back().computes = units.back().computes && computes;
  }
  return units;
}

std::optional<coconet::Schedule> with(const coconet::Schedule& schedule,
                                      const coconet::Transformation& transformation) {
  try {
    coconet::Schedule made = schedule;
    made.apply(transformation);
    return made;
  } catch (const UserError&) {
    return {};
  }
}

std::string new_section(const coconet::Program& program, const std::string& kind) {
  for (int i = 1;; ++i) {
    std::string name = kind + std::to_string(i);
    if (program.find_section(name) == nullptr && program.find_statement(name) == nullptr &&
        program.find_declaration(name) == nullptr)
      return name;
  }
}

std::optional<coconet::Schedule> with_fused(const coconet::Schedule& schedule, const Unit& a, const Unit& b) {
  const coconet::Program& program = schedule.program();
  const coconet::Transformation move{Kind::fuse, {new_section(program, "part"), a.name, b.name}};
  std::set<std::string> inside;
  for (const Unit* unit : {&a, &b})
    for (std::string& name : program.statements_of(unit->name)) inside.insert(std::move(name));
  coconet::Transformation with_stores = move;
  for (const coconet::Statement& statement : program.statements())
    if (only_stores(program, statement) && program.section_of(statement.name) == nullptr &&
        inside.contains(statement.expression.operands()[1].name()))
      with_stores.names.push_back(statement.name);
  if (with_stores.names.size() > move.names.size())
    if (auto made = with(schedule, with_stores)) return made;
  return with(schedule, move);
}

bool has_plan(const coconet::Program& program) { return !run_key(program).empty(); }

bool hands_over(const coconet::Program& program, const Unit& producer, const Unit& consumer) {
  const std::vector<std::string> made = program.statements_of(producer.name);
  return std::ranges::any_of(program.statements_of(consumer.name), [&](const std::string& name) {
    const coconet::Expression& root = program.statement(name).expression;
    return root.is(coconet::OperationKind::collective) && root.operands()[0].is(coconet::Operation::reference) &&
           std::ranges::count(made, root.operands()[0].name()) > 0;
  });
}

bool sums_computed(const coconet::Program& program) {
  return std::ranges::any_of(program.statements(), [&](const coconet::Statement& statement) {
    const coconet::Expression& root = statement.expression;
    if (!root.is(coconet::Operation::all_reduce) && !root.is(coconet::Operation::reduce_scatter)) return false;
    const coconet::Expression& summed = root.operands()[0];
    return summed.is(coconet::Operation::reference) && program.find_statement(summed.name()) != nullptr &&
           !is_small(program, statement);
  });
}

coconet::Schedule simplified(coconet::Schedule schedule, bool slices_tensors) {
  bool changed = true;
  while (changed) {
    changed = false;
    const coconet::Program program = schedule.program();
    const auto apply = [&](Kind kind, const std::string& name) {
      if (auto made = with(schedule, {kind, {name}})) {
        schedule = std::move(*made);
        changed = true;
      }
    };
    for (const coconet::Declaration& declaration : program.declarations())
      if (slices_tensors && std::ranges::any_of(program.statements(), [&](const coconet::Statement& each) {
            return slices(each.expression, declaration.name);
          }))
        apply(Kind::as_slice, declaration.name);
    for (const coconet::Statement& statement : program.statements())
      if (!statement.expression.is(coconet::Operation::update) && !program.is_output(statement.name) &&
          schedule.program().consumers_of(statement.name).empty())
        apply(Kind::dead, statement.name);
  }
  return schedule;
}

coconet::Schedule with_fused_computations(coconet::Schedule schedule) {
  for (bool changed = true; changed;) {
    changed = false;
    const std::vector<Unit> units = units_of(schedule.program());
    for (size_t i = 0; i < units.size() && !changed; ++i)
      for (size_t j = i + 1; j < units.size() && !changed; ++j) {
        if (!units[i].computes || !units[j].computes) continue;
        const auto made = with_fused(schedule, units[i], units[j]);
        if (!made || (has_plan(schedule.program()) && !has_plan(made->program()))) continue;
        schedule = *made;
        changed = true;
      }
  }
  return schedule;
}

}  // namespace axonn::tune
