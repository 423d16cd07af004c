#include "axonn/coconet/language/dataflow.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "coconet/language/typing.hpp"
#include "coconet/language/hoist.hpp"
#include "coconet/language/program_rules.hpp"
#include "coconet/language/section_rules.hpp"
#include "coconet/language/statement_order.hpp"

namespace axonn::coconet {
namespace {

constexpr const char* kWhere = "coconet.program";

}  // namespace

bool operator==(const Declaration& a, const Declaration& b) {
  return a.name == b.name && a.type == b.type && a.value == b.value && a.copy_of == b.copy_of;
}

bool operator==(const Statement& a, const Statement& b) { return a.name == b.name && a.expression == b.expression; }

bool operator==(const ProgramParts& a, const ProgramParts& b) {
  return a.name == b.name && a.sizes == b.sizes && a.groups == b.groups && a.declarations == b.declarations &&
         a.statements == b.statements && a.sections == b.sections && a.outputs == b.outputs;
}

bool operator==(const Section& a, const Section& b) {
  return a.kind == b.kind && a.name == b.name && a.members == b.members;
}

Program::Program(ProgramParts parts, const Guards& guards) : parts_(std::move(parts)) {
  AXONN_CHECK(parts_.groups >= 1 && parts_.groups <= kMostGroups, kWhere, parts_.name, ": a program must have 1 to ",
              kMostGroups, " groups, got ", parts_.groups);
  hoist(parts_);
  const int64_t names = std::ssize(parts_.sizes) + std::ssize(parts_.declarations) + std::ssize(parts_.statements) +
                        std::ssize(parts_.sections);
  AXONN_CHECK(names <= kMostNames, kWhere, parts_.name, ": a program has at most ", kMostNames,
              " sizes, declarations, statements and sections, got ", names);
  check_names(parts_, guards);
  for (const Declaration& declaration : parts_.declarations) {
    check_declaration(declaration, parts_, guards);
    types_.emplace(declaration.name, declaration.type);
  }
  std::set<std::string> updated;
  for (const Statement& statement : parts_.statements) add_statement(statement, updated, guards);
  for (const std::string& output : parts_.outputs)
    check(find_statement(output) != nullptr && std::ranges::count(parts_.outputs, output) == 1, guards,
          ProgramRule::outputs, with_line(parts_.name + ", return", parts_.return_line), "'" + output + "'");
  check(!parts_.outputs.empty() || !updated.empty(), guards, ProgramRule::outputs, parts_.name, "neither");
  if (parts_.sections.empty()) return;
  check_members(*this, guards);
  std::vector<Statement> ordered = in_sections(parts_, Dependencies(parts_));
  guards.check(!ordered.empty(), "coconet.sections", kSectionOrderRule, parts_.name, "");
  if (!ordered.empty()) parts_.statements = std::move(ordered);
  put_sections_in_order(parts_, *this);
  check_sections(*this, guards);
}

void Program::add_statement(const Statement& statement, std::set<std::string>& updated, const Guards& guards) {
  const std::string place = place_of(parts_.statements, statement);
  statement.expression.for_each_reference([&](const std::string& name) {
    if (!types_.contains(name)) check(false, guards, ProgramRule::defined, place, "'" + name + "'");
  });
  // The tensor of an update is not read; another update of it breaks the rule update-once.
  const bool updates = statement.expression.is(Operation::update);
  const Expression& read = updates ? statement.expression.operands()[1] : statement.expression;
  read.for_each_reference([&](const std::string& name) {
    check(!updated.contains(name), guards, ProgramRule::stale, place, "'" + name + "'");
  });
  const TypingContext context = {
      .type_of = [this](const std::string& name) { return type(name); },
      .groups = parts_.groups,
      .place = place,
      .guards = guards,
      .written = [this](const Expression& part) { return coconet::written(parts_.statements, part); }};
  types_.emplace(statement.name, context.derive(statement.expression));
  if (!updates) return;
  const Declaration* target = find_declaration(statement.expression.operands()[0].name());
  AXONN_CHECK(target != nullptr && !target->type.is_scalar(), kWhere, place, ": update takes a declared tensor, got '",
              statement.expression.operands()[0].name(), "'");
  check(updated.insert(target->name).second, guards, ProgramRule::update_once, place, "'" + target->name + "'");
}

const TensorType& Program::type(std::string_view name) const {
  const auto found = types_.find(name);
  if (found != types_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [other, type] : types_) names.push_back(other);
  throw UserError(kWhere,
                  detail::concatenate(parts_.name, " has no value '", name, "': name a declaration or a statement",
                                      did_you_mean(name, std::span<const std::string>(names))));
}

TensorType Program::type(const Expression& expression) const {
  const TypingContext context = {.type_of = [this](const std::string& name) { return type(name); },
                                 .groups = parts_.groups,
                                 .place = expression.to_string(),
                                 .guards = {}};
  return context.derive(expression);
}

const Statement& Program::statement(std::string_view name) const {
  const Statement* found = find_statement(name);
  if (found == nullptr) (void)type(name);  // its error, if it is no value at all
  AXONN_CHECK(found != nullptr, kWhere, parts_.name, ": needs a value that is computed, got '", name,
              "', which is declared");
  return *found;
}

const Statement* Program::find_statement(std::string_view name) const {
  const auto found = std::ranges::find(parts_.statements, name, &Statement::name);
  return found == parts_.statements.end() ? nullptr : &*found;
}

const Declaration* Program::find_declaration(std::string_view name) const {
  const auto found = std::ranges::find(parts_.declarations, name, &Declaration::name);
  return found == parts_.declarations.end() ? nullptr : &*found;
}

const Section* Program::find_section(std::string_view name) const {
  const auto found = std::ranges::find(parts_.sections, name, &Section::name);
  return found == parts_.sections.end() ? nullptr : &*found;
}

const Section* Program::section_of(std::string_view member) const {
  const auto found = std::ranges::find_if(
      parts_.sections, [&](const Section& section) { return std::ranges::count(section.members, member) > 0; });
  return found == parts_.sections.end() ? nullptr : &*found;
}

std::vector<std::string> Program::statements_of(std::string_view member) const {
  std::set<std::string, std::less<>> wanted = {std::string(member)};
  for (bool grows = true; grows;) {
    grows = false;
    for (const Section& section : parts_.sections)
      if (wanted.contains(section.name))
        for (const std::string& inner : section.members) grows |= wanted.insert(inner).second;
  }
  std::vector<std::string> found;
  for (const Statement& statement : parts_.statements)
    if (wanted.contains(statement.name)) found.push_back(statement.name);
  return found;
}

const Statement* Program::update_of(std::string_view tensor) const {
  const auto found = std::ranges::find_if(parts_.statements, [&](const Statement& statement) {
    return statement.expression.is(Operation::update) && statement.expression.operands()[0].name() == tensor;
  });
  return found == parts_.statements.end() ? nullptr : &*found;
}

std::vector<std::string> Program::consumers_of(std::string_view name) const {
  std::vector<std::string> consumers;
  for (const Statement& statement : parts_.statements)
    if (statement.expression.refers_to(name)) consumers.push_back(statement.name);
  return consumers;
}

std::string Program::written(std::string_view name) const {
  const Statement* statement = find_statement(name);
  if (statement == nullptr || statement->part_of.empty()) return std::string(name);
  return coconet::written(parts_.statements, statement->expression).to_string();
}

std::string Program::written(const Expression& expression) const {
  return coconet::written(parts_.statements, expression).to_string();
}

bool Program::is_output(std::string_view name) const { return std::ranges::count(parts_.outputs, name) > 0; }

ProgramBuilder::ProgramBuilder(std::string name, int groups) {
  parts_.name = std::move(name);
  parts_.groups = groups;
}

Expression ProgramBuilder::tensor(std::string name, ElementType element, Shape shape, Distribution distribution,
                                  int group) {
  for (const Size& size : shape)
    for (const std::string& symbol : size.symbols())
      if (std::ranges::count(parts_.sizes, symbol) == 0) parts_.sizes.push_back(symbol);
  parts_.declarations.push_back(
      {name, {.element = element, .shape = std::move(shape), .distribution = distribution, .group = group}});
  return Expression::reference(std::move(name));
}

Expression ProgramBuilder::scalar(std::string name, std::optional<double> value) {
  parts_.declarations.push_back({name, scalar_type(), value});
  return Expression::reference(std::move(name));
}

Expression ProgramBuilder::let(std::string name, Expression expression) {
  parts_.statements.push_back({name, std::move(expression)});
  return Expression::reference(std::move(name));
}

Program ProgramBuilder::returns(const std::vector<Expression>& outputs) const {
  ProgramParts parts = parts_;
  for (const Expression& output : outputs) parts.outputs.push_back(output.name());
  return Program(std::move(parts));
}

}  // namespace axonn::coconet
