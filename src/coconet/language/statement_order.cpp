#include "coconet/language/statement_order.hpp"

#include <algorithm>

namespace axonn::coconet {
namespace {

// Statements that stay together: one, or a section with its sections.
using Unit = std::vector<const Statement*>;

const Section* section_with(const ProgramParts& parts, const std::string& member) {
  const auto found = std::ranges::find_if(
      parts.sections, [&](const Section& section) { return std::ranges::count(section.members, member) > 0; });
  return found == parts.sections.end() ? nullptr : &*found;
}

// The outermost section that holds a statement, or the statement itself.
std::string outermost(const ProgramParts& parts, const std::string& statement) {
  const Section* section = section_with(parts, statement);
  if (section == nullptr) return statement;
  const Section* outer = section_with(parts, section->name);
  return outer == nullptr ? section->name : outer->name;
}

// The section inside of the outermost one that holds a statement, or the statement itself.
std::string innermost(const ProgramParts& parts, const std::string& statement) {
  const Section* section = section_with(parts, statement);
  return section != nullptr && section_with(parts, section->name) != nullptr ? section->name : statement;
}

// Orders units so that each follows what it depends on; among those that may come next, the one
// whose first statement comes first.
std::vector<Unit> ordered(std::vector<Unit> ahead, const Dependencies& dependencies) {
  std::vector<Unit> done;
  const auto waits_for = [&](const Unit& unit, const Unit& other) {
    return std::ranges::any_of(unit, [&](const Statement* mine) {
      return std::ranges::any_of(
          other, [&](const Statement* theirs) { return dependencies.of(mine->name).contains(theirs->name); });
    });
  };
  while (!ahead.empty()) {
    const auto next = std::ranges::find_if(ahead, [&](const Unit& unit) {
      return std::ranges::none_of(ahead, [&](const Unit& other) { return &unit != &other && waits_for(unit, other); });
    });
    if (next == ahead.end()) return {};
    done.push_back(std::move(*next));
    ahead.erase(next);
  }
  return done;
}

template <typename Home>
std::vector<Unit> grouped(const ProgramParts& parts, const Unit& statements, Home home_of) {
  std::vector<std::pair<std::string, Unit>> units;
  for (const Statement* statement : statements) {
    const std::string home = home_of(parts, statement->name);
    auto unit = std::ranges::find(units, home, &std::pair<std::string, Unit>::first);
    if (unit == units.end()) unit = units.insert(units.end(), {home, {}});
    unit->second.push_back(statement);
  }
  std::vector<Unit> result;
  for (auto& [home, unit] : units) result.push_back(std::move(unit));
  return result;
}

}  // namespace

Dependencies::Dependencies(const ProgramParts& parts) {
  std::map<std::string, std::string> updates;  // tensor -> statement
  for (const Statement& statement : parts.statements) {
    before_[statement.name];
    if (statement.expression.is(Operation::update)) updates[statement.expression.operands()[0].name()] = statement.name;
  }
  for (const Statement& statement : parts.statements)
    statement.expression.for_each_reference([&](const std::string& name) {
      if (before_.contains(name) && name != statement.name) before_[statement.name].insert(name);
      const auto update = updates.find(name);
      if (update != updates.end() && update->second != statement.name) before_[update->second].insert(statement.name);
    });
}

bool Dependencies::reach(const std::string& statement, const std::string& other) const {
  std::set<std::string> seen;
  std::vector<std::string> ahead = {statement};
  while (!ahead.empty()) {
    const std::string name = ahead.back();
    ahead.pop_back();
    for (const std::string& before : of(name)) {
      if (before == other) return true;
      if (seen.insert(before).second) ahead.push_back(before);
    }
  }
  return false;
}

std::vector<Statement> in_sections(const ProgramParts& parts, const Dependencies& dependencies) {
  Unit all;
  for (const Statement& statement : parts.statements) all.push_back(&statement);
  std::vector<Statement> result;
  for (const Unit& unit : ordered(grouped(parts, all, outermost), dependencies)) {
    const std::vector<Unit> rooms = ordered(grouped(parts, unit, innermost), dependencies);
    if (rooms.empty()) return {};
    for (const Unit& room : rooms)
      for (const Statement* statement : room) result.push_back(*statement);
  }
  return result;
}

void put_sections_in_order(ProgramParts& parts, const Program& program) {
  std::map<std::string, size_t> first;  // member -> place of its first statement
  const auto add = [&](const std::string& member) {
    const std::vector<std::string> statements = program.statements_of(member);
    const auto found = std::ranges::find(parts.statements, statements.empty() ? "" : statements[0], &Statement::name);
    first[member] = static_cast<size_t>(found - parts.statements.begin());
  };
  for (const Section& section : parts.sections) {
    add(section.name);
    std::ranges::for_each(section.members, add);
  }
  const auto place = [&](const std::string& member) { return first[member]; };
  for (Section& section : parts.sections)
    if (section.kind == SectionKind::fuse) std::ranges::stable_sort(section.members, {}, place);
  // An overlap stands before the fused sections that it holds.
  std::ranges::stable_sort(parts.sections, [&](const Section& a, const Section& b) {
    return place(a.name) != place(b.name) ? place(a.name) < place(b.name) : a.kind > b.kind;
  });
}

}  // namespace axonn::coconet
