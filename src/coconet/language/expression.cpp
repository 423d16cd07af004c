#include "axonn/coconet/language/expression.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>

#include "axonn/core/error.hpp"

namespace axonn::coconet {
namespace {

std::string number_text(double number) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  return {digits.data(), end};
}

std::string dims_text(const std::vector<int>& dims) {
  std::string text;
  for (const int dim : dims) text.append(text.empty() ? "" : ", ").append(std::to_string(dim));
  return "[" + text + "]";
}

// The attributes before the operands (the sign of a reduction), and after them.
std::string leading_text(const OperationInfo& row, const Attributes& attributes) {
  std::string text;
  for (const Attribute attribute : row.attributes)
    if (attribute == Attribute::reduction) text.append(axonn::to_string(attributes.reduction)).append(", ");
  return text;
}

std::string trailing_text(const OperationInfo& row, const Attributes& attributes) {
  std::string text;
  for (const Attribute attribute : row.attributes) switch (attribute) {
      case Attribute::reduction:
        break;
      case Attribute::dim:
        text += ", dim=" + std::to_string(attributes.dim);
        break;
      case Attribute::dims:
        if (!attributes.dims.empty()) text += ", dims=" + dims_text(attributes.dims);
        break;
      case Attribute::root:
        text += ", root=" + std::to_string(attributes.root);
        break;
      case Attribute::element:
        text.append(", ").append(axonn::to_string(attributes.element));
        break;
      case Attribute::probability:
        text += ", " + number_text(attributes.probability);
        break;
      case Attribute::stream:
        if (attributes.stream != 0) text += ", stream=" + std::to_string(attributes.stream);
        break;
      case Attribute::group:
        text.append(", GroupRank(GROUP").append(attributes.group < 0 ? "" : "+");
        text.append(std::to_string(attributes.group)).append(", RANK)");
        break;
    }
  return text;
}

constexpr int kSignPrecedence = 4, kPowerPrecedence = 5;

// How closely the text of an expression binds: names and calls closest.
int precedence_of(const Expression& expression) {
  if (expression.is(Operation::constant))
    return std::signbit(expression.number()) ? kSignPrecedence : kPowerPrecedence + 1;
  const int precedence = info(expression.operation()).precedence;
  return precedence == 0 ? kPowerPrecedence + 1 : precedence;
}

std::string operand_text(const Expression& operand, int least_precedence) {
  const std::string text = operand.to_string();
  return precedence_of(operand) < least_precedence ? "(" + text + ")" : text;
}

std::string infix_text(const OperationInfo& row, const std::vector<Expression>& operands) {
  // Operators group from the left, power from the right; comparisons not at all.
  const bool from_right = row.operation == Operation::power, comparison = row.precedence == 1;
  const int left = row.precedence + (from_right || comparison ? 1 : 0);
  const int right = from_right ? row.precedence - 1 : row.precedence + 1;
  return operand_text(operands[0], left) + " " + std::string(row.name) + " " + operand_text(operands[1], right);
}

// Only what the operation lists, so that equal texts are equal expressions.
Attributes with_a_meaning(const OperationInfo& row, const Attributes& given) {
  Attributes kept;
  for (const Attribute attribute : row.attributes) switch (attribute) {
      case Attribute::reduction:
        kept.reduction = given.reduction;
        break;
      case Attribute::dim:
        kept.dim = given.dim;
        break;
      case Attribute::dims:
        kept.dims = given.dims;
        break;
      case Attribute::root:
        kept.root = given.root;
        break;
      case Attribute::element:
        kept.element = given.element;
        break;
      case Attribute::probability:
        kept.probability = given.probability;
        break;
      case Attribute::stream:
        kept.stream = given.stream;
        break;
      case Attribute::group:
        kept.group = given.group;
        break;
    }
  return kept;
}

}  // namespace

Expression::Expression(double number) : Expression(Node{.operation = Operation::constant, .number = number}) {
  AXONN_CHECK(std::isfinite(number), "coconet.expression", "a constant must be finite, got ", number);
}

Expression Expression::reference(std::string name) {
  return Expression(Node{.operation = Operation::reference, .name = std::move(name)});
}

Expression Expression::ranks() { return Expression(Node{.operation = Operation::ranks}); }

Expression Expression::of(Operation operation, std::vector<Expression> operands, const Attributes& attributes) {
  const OperationInfo& row = info(operation);
  AXONN_CHECK(std::ssize(operands) == row.operands, "coconet.expression", row.name, " takes ", row.operands,
              " operands, got ", operands.size());
  if (operation == Operation::negate && operands[0].is(Operation::constant)) return {-operands[0].number()};
  int depth = 0;
  for (const Expression& operand : operands) depth = std::max(depth, operand.node_->depth);
  AXONN_CHECK(depth < kMostDepth, "coconet.expression", "an expression is at most ", kMostDepth,
              " operations deep: make a statement of a part of it");
  return Expression(Node{.operation = operation,
                         .operands = std::move(operands),
                         .attributes = with_a_meaning(row, attributes),
                         .depth = depth + 1});
}

void Expression::for_each_reference(const std::function<void(const std::string&)>& visit) const {
  if (is(Operation::reference)) return visit(name());
  for (const Expression& operand : operands()) operand.for_each_reference(visit);
}

bool Expression::refers_to(std::string_view name) const {
  bool found = false;
  for_each_reference([&](const std::string& other) { found = found || other == name; });
  return found;
}

Expression Expression::with_references(const std::function<Expression(const std::string&)>& replace) const {
  if (is(Operation::reference)) return replace(name());
  if (operands().empty()) return *this;
  std::vector<Expression> replaced;
  for (const Expression& operand : operands()) replaced.push_back(operand.with_references(replace));
  return of(operation(), std::move(replaced), attributes());
}

std::string Expression::to_string() const {
  const OperationInfo& row = info(operation());
  if (is(Operation::reference)) return name();
  if (is(Operation::constant)) return number_text(number());
  if (is(Operation::ranks)) return std::string(row.name);
  if (is(Operation::negate)) return "-" + operand_text(operands()[0], row.precedence);
  if (row.precedence > 0) return infix_text(row, operands());
  std::string text = std::string(row.name) + "(" + leading_text(row, attributes());
  for (const Expression& operand : operands())
    text += (&operand == operands().data() ? "" : ", ") + operand.to_string();
  return text + trailing_text(row, attributes()) + ")";
}

bool operator==(const Expression& a, const Expression& b) {
  return a.node_ == b.node_ || (a.operation() == b.operation() && a.operands() == b.operands() &&
                                a.attributes() == b.attributes() && a.number() == b.number() && a.name() == b.name());
}

Expression operator+(Expression a, Expression b) {
  return Expression::of(Operation::add, {std::move(a), std::move(b)});
}
Expression operator-(Expression a, Expression b) {
  return Expression::of(Operation::subtract, {std::move(a), std::move(b)});
}
Expression operator*(Expression a, Expression b) {
  return Expression::of(Operation::multiply, {std::move(a), std::move(b)});
}
Expression operator/(Expression a, Expression b) {
  return Expression::of(Operation::divide, {std::move(a), std::move(b)});
}
Expression operator-(Expression a) { return Expression::of(Operation::negate, {std::move(a)}); }

Expression pow(Expression base, Expression exponent) {
  return Expression::of(Operation::power, {std::move(base), std::move(exponent)});
}
Expression sign(Expression x) { return Expression::of(Operation::sign, {std::move(x)}); }
Expression sqrt(Expression x) { return Expression::of(Operation::square_root, {std::move(x)}); }
Expression fma(Expression a, Expression b, Expression c) {
  return Expression::of(Operation::fma, {std::move(a), std::move(b), std::move(c)});
}
Expression select(Expression condition, Expression yes, Expression no) {
  return Expression::of(Operation::select, {std::move(condition), std::move(yes), std::move(no)});
}
Expression less(Expression a, Expression b) { return Expression::of(Operation::less, {std::move(a), std::move(b)}); }
Expression cast(Expression x, ElementType element) {
  return Expression::of(Operation::cast, {std::move(x)}, {.element = element});
}
Expression dropout(Expression x, double probability, int64_t stream) {
  return Expression::of(Operation::dropout, {std::move(x)}, {.probability = probability, .stream = stream});
}

Expression slice(Expression x, int dim) { return Expression::of(Operation::slice, {std::move(x)}, {.dim = dim}); }
Expression load(Expression x, int root) { return Expression::of(Operation::load, {std::move(x)}, {.root = root}); }
Expression update(Expression tensor, Expression value) {
  return Expression::of(Operation::update, {std::move(tensor), std::move(value)});
}
Expression reduce_tensor(ReduceOp reduction, Expression x, std::vector<int> dims) {
  return Expression::of(Operation::reduce_tensor, {std::move(x)}, {.reduction = reduction, .dims = std::move(dims)});
}
Expression norm(Expression x, std::vector<int> dims) {
  return Expression::of(Operation::norm, {std::move(x)}, {.dims = std::move(dims)});
}
Expression matmul(Expression x, Expression weight) {
  return Expression::of(Operation::matmul, {std::move(x), std::move(weight)});
}
Expression conv2d(Expression x, Expression weight) {
  return Expression::of(Operation::conv2d, {std::move(x), std::move(weight)});
}

Expression all_reduce(ReduceOp reduction, Expression x) {
  return Expression::of(Operation::all_reduce, {std::move(x)}, {.reduction = reduction});
}
Expression reduce_scatter(ReduceOp reduction, Expression x, int dim) {
  return Expression::of(Operation::reduce_scatter, {std::move(x)}, {.reduction = reduction, .dim = dim});
}
Expression reduce(ReduceOp reduction, Expression x, int root) {
  return Expression::of(Operation::reduce, {std::move(x)}, {.reduction = reduction, .root = root});
}
Expression all_gather(Expression x) { return Expression::of(Operation::all_gather, {std::move(x)}); }
Expression broadcast(Expression x) { return Expression::of(Operation::broadcast, {std::move(x)}); }
Expression send(Expression x, int group) { return Expression::of(Operation::send, {std::move(x)}, {.group = group}); }

}  // namespace axonn::coconet
