#include "random_programs.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "axonn/core/error.hpp"
#include "coconet/language/typing.hpp"

namespace axonn::coconet {
namespace {

template <typename Value, size_t N>
Value one_of(RandomPrograms& random, const Value (&values)[N]) {
  return values[random.number(static_cast<int>(N))];
}

bool is_program(const ProgramParts& parts) {
  try {
    const Program program(parts);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace

double RandomPrograms::constant() {
  if (number(2) == 0) return one_of(*this, {0.0, -0.0, 1.0, -1.0, 0.5, 1e-8, -1e22, 5e-324, 1.7976931348623157e308});
  const auto value = std::bit_cast<double>(random_());
  return std::isfinite(value) ? value : 0.1;
}

Attributes RandomPrograms::attributes() {
  constexpr int kLeast = std::numeric_limits<int>::min(), kMost = std::numeric_limits<int>::max();
  Attributes all = {.reduction = one_of(*this, {ReduceOp::sum, ReduceOp::max, ReduceOp::min}),
                    .dim = one_of(*this, {0, 0, 1, 2, -1, kMost}),
                    .dims = {},
                    .root = one_of(*this, {0, 1, 7, kLeast}),
                    .element = one_of(*this, {ElementType::fp64, ElementType::fp32, ElementType::bf16,
                                              ElementType::fp16, ElementType::boolean}),
                    .probability = constant(),
                    .stream = number(2) == 0 ? 0 : static_cast<int64_t>(random_()),
                    .group = one_of(*this, {1, -1, 0, 2, kLeast, kMost})};
  for (int i = number(4); i > 0; --i) all.dims.push_back(number(3));
  return all;
}

Expression RandomPrograms::leaf() {
  static constexpr const char* kNames[] = {"a", "_b1", "w1.slice", "dim", "GROUP", "fp32", "local", "e1", "x..y"};
  const int kind = number(6);
  return kind == 0  ? Expression::ranks()
         : kind < 3 ? Expression(constant())
                    : Expression::reference(one_of(*this, kNames));
}

Expression RandomPrograms::expression(int depth) {
  if (depth == 0 || number(6) == 0) return leaf();
  const OperationInfo& row = operations()[static_cast<size_t>(number(static_cast<int>(operations().size())))];
  if (row.kind == OperationKind::leaf) return leaf();
  std::vector<Expression> operands;
  for (int i = 0; i < row.operands; ++i) operands.push_back(expression(depth - 1));
  return Expression::of(row.operation, std::move(operands), attributes());
}

Declaration RandomPrograms::declaration(int index) {
  const std::string name = "t" + std::to_string(index);
  if (number(5) == 0)
    return {name, scalar_type(), number(2) == 0 ? std::optional<double>() : std::optional<double>(constant())};
  const Distribution distribution =
      one_of(*this, {Distribution::local(), Distribution::replicated(), Distribution::replicated(),
                     Distribution::sliced(number(2)), Distribution::rooted(number(3))});
  const Shape shape = number(3) > 0 ? Shape{"M", "M"} : Shape{4 * Size("M"), Size("M") * Size("K")};
  return {name,
          {.element = number(4) > 0 ? ElementType::fp32 : ElementType::bf16,
           .shape = shape,
           .distribution = distribution,
           .group = number(4) > 0 ? 0 : 1}};
}

// An operation on values, wrapped in a pointwise one now and then.
Expression RandomPrograms::statement(const std::map<std::string, TensorType>& values) {
  const auto value = [&] {
    return Expression::reference(std::next(values.begin(), number(static_cast<int>(values.size())))->first);
  };
  if (number(8) == 0) return update(value(), value() * constant());
  const OperationInfo& row = operations()[static_cast<size_t>(number(static_cast<int>(operations().size())))];
  if (row.kind == OperationKind::leaf) return number(3) > 0 ? value() * constant() : value() + Expression::ranks();
  std::vector<Expression> operands;
  for (int i = 0; i < row.operands; ++i) operands.push_back(number(8) > 0 ? value() : value() * value());
  Attributes settings = attributes();
  settings.dim = number(2);
  settings.root = number(3);
  settings.probability = 0.25;
  const Expression result = Expression::of(row.operation, std::move(operands), settings);
  return number(6) == 0 && row.kind != OperationKind::update ? -result : result;
}

// Runs of statements become sections, if the rules let them.
void RandomPrograms::add_sections(ProgramParts& parts) {
  const int statements = static_cast<int>(parts.statements.size());
  for (int attempt = 0; attempt < 5; ++attempt) {
    const int begin = number(statements), length = 2 + number(3);
    if (begin + length > statements) continue;
    ProgramParts with = parts;
    Section section = {.kind = number(2) == 0 ? SectionKind::fuse : SectionKind::overlap,
                       .name = "s" + std::to_string(attempt),
                       .members = {}};
    for (int i = begin; i < begin + length; ++i)
      section.members.push_back(parts.statements[static_cast<size_t>(i)].name);
    if (section.kind == SectionKind::overlap && !parts.sections.empty() && number(2) == 0)
      section.members.back() = parts.sections[0].name;
    with.sections.push_back(section);
    if (is_program(with)) parts = Program(with).parts();
  }
}

// Adds a statement if its expression has a type, and its update a target.
void RandomPrograms::add_statement(ProgramParts& parts, std::map<std::string, TensorType>& values) {
  const std::string name = "v" + std::to_string(parts.statements.size());
  const Expression made = statement(values);
  const TypingContext context = {.type_of = [&](const std::string& value) { return values.at(value); },
                                 .groups = parts.groups,
                                 .place = name,
                                 .guards = {}};
  TensorType type;
  try {
    type = context.derive(made);
  } catch (const UserError&) {
    return;
  }
  if (made.is(Operation::update)) {
    const std::string target = made.operands()[0].name();
    if (!target.starts_with("t") || values.at(target).is_scalar()) return;
    values.erase(target);
  }
  parts.statements.push_back({name, made});
  values[name] = type;
  if (number(4) == 0) parts.outputs.push_back(name);
}

Program RandomPrograms::program() {
  ProgramParts parts = {.name = "random", .sizes = {"M", "K"}, .groups = 2};
  std::map<std::string, TensorType> values;
  for (int i = 0; i < 6; ++i) {
    parts.declarations.push_back(declaration(i));
    values[parts.declarations.back().name] = parts.declarations.back().type;
  }
  parts.statements.push_back({"v", Expression(1)});
  parts.outputs = {"v"};
  for (int attempt = 0; attempt < 40; ++attempt) add_statement(parts, values);
  parts = Program(parts).parts();
  add_sections(parts);
  return Program(parts);
}

}  // namespace axonn::coconet
