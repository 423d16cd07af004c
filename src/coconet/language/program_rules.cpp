#include "coconet/language/program_rules.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <span>

#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "coconet/language/typing.hpp"
#include "coconet/language/words.hpp"

namespace axonn::coconet {
namespace {

constexpr const char* kWhere = "coconet.program";
constexpr size_t kMostDims = 16;

constexpr Rule kRules[] = {
    {"names", "a name has at most 100 letters, digits, _ and ., starts with a letter or _, and stands for one thing",
     "every value is found by its name"},
    {"declarations", "a tensor can lie in memory, and what it begins with is known", "CoCoNet, section 2.1"},
    {"defined", "a value is computed before it is used", "CoCoNet, section 2.2: a data-flow graph"},
    {"stale", "after its update a tensor is read by the name of the update",
     "CoCoNet, section 3: Update shows in the positions that follow"},
    {"update-once", "a tensor is updated once", "the last of two updates would depend on the schedule"},
    {"outputs", "a program returns statements, each once, or updates a tensor", "else it has no result"},
};

const Statement* find(const std::vector<Statement>& statements, std::string_view name) {
  const auto found = std::ranges::find(statements, name, &Statement::name);
  return found == statements.end() ? nullptr : &*found;
}

// The fault of a declaration, one sentence per reason; "": none.
std::string fault_of(const Declaration& declaration, const ProgramParts& parts) {
  const TensorType& type = declaration.type;
  const Distribution& lies = type.distribution;
  const bool finite = std::isfinite(declaration.value.value_or(0));
  if (!finite) return "a value is a finite number";
  if (type == scalar_type()) return "";
  if (type.element == ElementType::boolean)
    return "no tensor in memory is boolean: use fp32, or compare in a statement";
  if (type.group < 0 || type.group >= parts.groups)
    return detail::concatenate("the program has ", parts.groups, " groups, from 0 on; there is no group ", type.group);
  if (type.shape.size() > kMostDims)
    return detail::concatenate("a tensor has at most ", kMostDims, " dims, got ", type.shape.size());
  for (const Size& size : type.shape)
    for (const std::string& symbol : size.symbols())
      if (std::ranges::count(parts.sizes, symbol) == 0)
        return "size " + symbol + " is not declared: add a line 'size " + symbol + "'" +
               did_you_mean(symbol, std::span<const std::string>(parts.sizes));
  if (lies.is(Placement::sliced) && (lies.dim < 0 || lies.dim >= std::ssize(type.shape)))
    return detail::concatenate("it has ", type.shape.size(), " dims, from 0 on, and cannot be sliced on dim ",
                               lies.dim);
  if (lies.is(Placement::sliced) && type.shape[static_cast<size_t>(lies.dim)].is_one())
    return detail::concatenate("dim ", lies.dim, " has one element, and cannot be sliced");
  if (lies.is(Placement::rooted) && lies.root < 0)
    return detail::concatenate("a rank is a number from 0 on, got ", lies.root);
  if (declaration.copy_of.empty()) return "";
  const auto source = std::ranges::find(parts.declarations, declaration.copy_of, &Declaration::name);
  if (source == parts.declarations.end() || source->name == declaration.name)
    return "it begins as a copy of another declared tensor, not of '" + declaration.copy_of + "'";
  if (source->type.shape != type.shape || source->type.group != type.group)
    return "it begins as a copy of a tensor of its shape and group, and " + source->name + " is " +
           source->type.to_string();
  return "";
}

}  // namespace

std::span<const Rule> program_rules() { return kRules; }

void check(bool holds, const Guards& guards, ProgramRule rule, std::string_view place, std::string_view got) {
  guards.check(holds, kWhere, kRules[static_cast<size_t>(rule)], place, got);
}

std::string with_line(std::string place, int line) {
  return line > 0 ? place + ", line " + std::to_string(line) : place;
}

Expression written(const std::vector<Statement>& statements, const Expression& expression) {
  return expression.with_references([&](const std::string& name) {
    const Statement* part = find(statements, name);
    return part == nullptr || part->part_of.empty() ? Expression::reference(name)
                                                    : written(statements, part->expression);
  });
}

std::string place_of(const std::vector<Statement>& statements, const Statement& statement) {
  const Statement* whole = statement.part_of.empty() ? nullptr : find(statements, statement.part_of);
  if (whole != nullptr) return place_of(statements, *whole);
  return with_line(statement.name + " = " + written(statements, statement.expression).to_string(), statement.line);
}

void check_names(const ProgramParts& parts, const Guards& guards) {
  check(is_word(parts.name), guards, ProgramRule::names, "program", "'" + parts.name + "'");
  std::set<std::string> taken;
  const auto take = [&](const std::string& name, int line) {
    const bool fits = is_word(name) && !is_reserved(name);
    check(fits && taken.insert(name).second, guards, ProgramRule::names, with_line(parts.name, line), "'" + name + "'");
  };
  for (const std::string& size : parts.sizes) take(size, 0);
  for (const Declaration& declaration : parts.declarations) take(declaration.name, declaration.line);
  for (const Statement& statement : parts.statements) take(statement.name, statement.line);
  for (const Section& section : parts.sections) take(section.name, section.line);
}

void check_declaration(const Declaration& declaration, const ProgramParts& parts, const Guards& guards) {
  Rule rule = kRules[static_cast<size_t>(ProgramRule::declarations)];
  const std::string fault = fault_of(declaration, parts);
  rule.needs = fault;
  guards.check(fault.empty(), kWhere, rule, with_line(declaration.name, declaration.line),
               declaration.type.to_string());
}

}  // namespace axonn::coconet
