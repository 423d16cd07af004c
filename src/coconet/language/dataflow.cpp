#include "axonn/coconet/language/dataflow.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "axonn/coconet/language/typing.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "coconet/language/section_rules.hpp"
#include "coconet/language/statement_order.hpp"
#include "coconet/language/words.hpp"

namespace axonn::coconet {
namespace {

constexpr const char* kWhere = "coconet.program";
constexpr size_t kMostDims = 16;

enum class ProgramRule : uint8_t { names, declarations, defined, stale, update_once, outputs };
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

void check(bool holds, const Guards& guards, ProgramRule rule, std::string_view place, std::string_view got) {
  guards.check(holds, kWhere, kRules[static_cast<size_t>(rule)], place, got);
}

std::string with_line(std::string place, int line) {
  return line > 0 ? place + ", line " + std::to_string(line) : place;
}

const Statement* find(const std::vector<Statement>& statements, std::string_view name) {
  const auto found = std::ranges::find(statements, name, &Statement::name);
  return found == statements.end() ? nullptr : &*found;
}

// An expression with the parts that were made statements of their own.
Expression written(const std::vector<Statement>& statements, const Expression& expression) {
  return expression.with_references([&](const std::string& name) {
    const Statement* part = find(statements, name);
    return part == nullptr || part->part_of.empty() ? Expression::reference(name)
                                                    : written(statements, part->expression);
  });
}

// The statement as the user wrote it.
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

// What is wrong with a declaration, one sentence per reason; "": nothing.
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

void check_declaration(const Declaration& declaration, const ProgramParts& parts, const Guards& guards) {
  Rule rule = kRules[static_cast<size_t>(ProgramRule::declarations)];
  const std::string fault = fault_of(declaration, parts);
  rule.needs = fault;
  guards.check(fault.empty(), kWhere, rule, with_line(declaration.name, declaration.line),
               declaration.type.to_string());
}

// Sections in the order of their statements; the members of a fused one too.
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

// Gives a statement of its own to every operation that must stand at the root of one.
class Hoist {
 public:
  explicit Hoist(ProgramParts& parts) : parts_(parts) {
    taken_.insert(parts.sizes.begin(), parts.sizes.end());
    for (const Declaration& declaration : parts.declarations) taken_.insert(declaration.name);
    for (const Statement& statement : parts.statements) taken_.insert(statement.name);
    for (const Section& section : parts.sections) taken_.insert(section.name);
  }

  void run() {
    const std::vector<Statement> before = std::move(parts_.statements);
    parts_.statements.clear();
    for (const Statement& statement : before) {
      current_ = &statement;
      last_ = 0;
      const Expression expression = root(statement.expression);
      parts_.statements.push_back({statement.name, expression, statement.line, statement.part_of});
    }
  }

 private:
  static bool stands_alone(const Expression& expression) {
    switch (info(expression.operation()).kind) {
      case OperationKind::leaf:
      case OperationKind::pointwise:
      case OperationKind::part:
        return false;
      default:
        return true;
    }
  }

  Expression root(const Expression& expression) {
    const OperationKind kind = info(expression.operation()).kind;
    const bool takes_references =
        kind == OperationKind::layer || kind == OperationKind::collective || kind == OperationKind::send;
    std::vector<Expression> operands;
    for (const Expression& operand : expression.operands())
      operands.push_back(takes_references && !operand.is(Operation::reference) ? hoisted(operand) : inner(operand));
    return operands.empty() ? expression
                            : Expression::of(expression.operation(), std::move(operands), expression.attributes());
  }

  Expression inner(const Expression& expression) {
    return stands_alone(expression) ? hoisted(expression) : root(expression);
  }

  Expression hoisted(const Expression& expression) {
    const Expression value = root(expression);
    std::string name;
    do name = current_->name + "." + std::to_string(++last_);
    while (!taken_.insert(name).second);
    parts_.statements.push_back({name, value, current_->line, current_->name});
    for (Section& section : parts_.sections) {
      const auto member = std::ranges::find(section.members, current_->name);
      if (member != section.members.end()) section.members.insert(member, name);
    }
    return Expression::reference(name);
  }

  ProgramParts& parts_;
  std::set<std::string> taken_;
  const Statement* current_ = nullptr;
  int last_ = 0;
};

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

std::span<const Rule> program_rules() { return kRules; }

Program::Program(ProgramParts parts, const Guards& guards) : parts_(std::move(parts)) {
  AXONN_CHECK(parts_.groups >= 1 && parts_.groups <= kMostGroups, kWhere, parts_.name, ": a program must have 1 to ",
              kMostGroups, " groups, got ", parts_.groups);
  Hoist(parts_).run();
  const int64_t names = std::ssize(parts_.sizes) + std::ssize(parts_.declarations) + std::ssize(parts_.statements) +
                        std::ssize(parts_.sections);
  AXONN_CHECK(names <= kMostNames, kWhere, parts_.name, ": a program has at most ", kMostNames,
              " sizes, declarations, statements and sections, got ", names);
  check_names(parts_, guards);
  std::map<std::string, std::string> updates;  // tensor -> its update
  for (const Declaration& declaration : parts_.declarations) {
    check_declaration(declaration, parts_, guards);
    types_.emplace(declaration.name, declaration.type);
  }
  for (const Statement& statement : parts_.statements) {
    const std::string place = place_of(parts_.statements, statement);
    statement.expression.for_each_reference([&](const std::string& name) {
      if (!types_.contains(name)) check(false, guards, ProgramRule::defined, place, "'" + name + "'");
    });
    // The tensor of an update is not read; another update of it breaks the rule update-once.
    const Expression& read =
        statement.expression.is(Operation::update) ? statement.expression.operands()[1] : statement.expression;
    read.for_each_reference([&](const std::string& name) {
      check(!updates.contains(name), guards, ProgramRule::stale, place, "'" + name + "'");
    });
    const TypingContext context = {
        .type_of = [this](const std::string& name) { return type(name); },
        .groups = parts_.groups,
        .place = place,
        .guards = guards,
        .written = [this](const Expression& part) { return coconet::written(parts_.statements, part); }};
    types_.emplace(statement.name, context.derive(statement.expression));
    if (statement.expression.is(Operation::update)) {
      const Declaration* target = find_declaration(statement.expression.operands()[0].name());
      AXONN_CHECK(target != nullptr && !target->type.is_scalar(), kWhere, place,
                  ": update takes a declared tensor, got '", statement.expression.operands()[0].name(), "'");
      check(updates.emplace(target->name, statement.name).second, guards, ProgramRule::update_once, place,
            "'" + target->name + "'");
    }
  }
  for (const std::string& output : parts_.outputs)
    check(find_statement(output) != nullptr && std::ranges::count(parts_.outputs, output) == 1, guards,
          ProgramRule::outputs, with_line(parts_.name + ", return", parts_.return_line), "'" + output + "'");
  check(!parts_.outputs.empty() || !updates.empty(), guards, ProgramRule::outputs, parts_.name, "neither");
  if (parts_.sections.empty()) return;
  check_members(*this, guards);
  std::vector<Statement> ordered = in_sections(parts_, Dependencies(parts_));
  guards.check(!ordered.empty(), "coconet.sections", kSectionOrderRule, parts_.name, "");
  if (!ordered.empty()) parts_.statements = std::move(ordered);
  put_sections_in_order(parts_, *this);
  check_sections(*this, guards);
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
