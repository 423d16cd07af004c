#include "coconet/plan/expression_kernel.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "axonn/core/error.hpp"

namespace axonn::coconet {
namespace {

using Value = PointwiseKernel::Value;

constexpr const char* kWhere = "coconet.kernel";

// The others have no stage of their own, or no value.
constexpr std::pair<Operation, PointwiseOp> kPointwise[] = {{Operation::add, PointwiseOp::add},
                                                            {Operation::subtract, PointwiseOp::subtract},
                                                            {Operation::multiply, PointwiseOp::multiply},
                                                            {Operation::divide, PointwiseOp::divide},
                                                            {Operation::negate, PointwiseOp::negate},
                                                            {Operation::fma, PointwiseOp::fma},
                                                            {Operation::power, PointwiseOp::power},
                                                            {Operation::square_root, PointwiseOp::square_root},
                                                            {Operation::exponential, PointwiseOp::exponential},
                                                            {Operation::logarithm, PointwiseOp::logarithm},
                                                            {Operation::absolute, PointwiseOp::absolute},
                                                            {Operation::maximum, PointwiseOp::maximum},
                                                            {Operation::minimum, PointwiseOp::minimum},
                                                            {Operation::tanh, PointwiseOp::tanh},
                                                            {Operation::relu, PointwiseOp::relu},
                                                            {Operation::gelu, PointwiseOp::gelu},
                                                            {Operation::sigmoid, PointwiseOp::sigmoid},
                                                            {Operation::less, PointwiseOp::less},
                                                            {Operation::less_equal, PointwiseOp::less_equal},
                                                            {Operation::greater, PointwiseOp::greater},
                                                            {Operation::greater_equal, PointwiseOp::greater_equal},
                                                            {Operation::equal, PointwiseOp::equal},
                                                            {Operation::not_equal, PointwiseOp::not_equal},
                                                            {Operation::select, PointwiseOp::select}};

PointwiseOp pointwise_op(Operation operation) {
  const auto* const row = std::ranges::find(kPointwise, operation, &std::pair<Operation, PointwiseOp>::first);
  AXONN_ASSERT(row != std::end(kPointwise), "no stage computes ", info(operation).name);
  return row->second;
}

}  // namespace

Value ExpressionKernel::as(Value value, ElementType type) {
  return made_.kernel.type_of(value) == type ? value : made_.kernel.cast(value, type);
}

Value ExpressionKernel::build(const Expression& expression) {
  switch (expression.operation()) {
    case Operation::reference:
      return read_(expression);
    case Operation::constant:
      return made_.kernel.constant(expression.number(), ElementType::fp64);
    case Operation::ranks:
      return ranks();
    case Operation::slice:
    case Operation::load:
      return build(expression.operands()[0]);
    case Operation::cast:
      return as(build(expression.operands()[0]), expression.attributes().element);
    case Operation::dropout:
      return dropped(expression);
    case Operation::sign:
      return sign(expression);
    default:
      return applied(expression);
  }
}

Value ExpressionKernel::ranks() {
  if (ranks_.index < 0) {
    made_.scalars.emplace_back();
    ranks_ = made_.kernel.scalar("ranks", ElementType::fp64);
  }
  return ranks_;
}

Value ExpressionKernel::dropped(const Expression& expression) {
  const Attributes& attributes = expression.attributes();
  const Value x = build(expression.operands()[0]);
  const ElementType type = made_.kernel.type_of(x);
  const double p = attributes.probability;
  if (p == 0) return x;
  AXONN_CHECK(program_.type(expression.operands()[0]).shape == made_.loop && !made_.loop.empty(), kWhere,
              program_.written(expression), ": dropout needs a tensor of the loop's shape ", to_string(made_.loop),
              ", got ", to_string(program_.type(expression.operands()[0]).shape));
  const Value mask = made_.kernel.dropout_mask("dropout." + std::to_string(made_.masks.size()));
  made_.masks.push_back({p, attributes.stream});
  const Value kept =
      made_.kernel.apply(PointwiseOp::not_equal, {mask, made_.kernel.constant(0, made_.kernel.type_of(mask))});
  const Value scaled = made_.kernel.apply(PointwiseOp::multiply, {x, made_.kernel.constant(1 / (1 - p), type)});
  return made_.kernel.apply(PointwiseOp::select, {kept, scaled, made_.kernel.constant(0, type)});
}

// No stage of its own: two comparisons.
Value ExpressionKernel::sign(const Expression& expression) {
  const Value x = build(expression.operands()[0]);
  const ElementType type = made_.kernel.type_of(x);
  const Value zero = made_.kernel.constant(0, type);
  const auto either = [&](PointwiseOp compares, double number, Value otherwise) {
    const Value holds = made_.kernel.apply(compares, {x, zero});
    return made_.kernel.apply(PointwiseOp::select, {holds, made_.kernel.constant(number, type), otherwise});
  };
  return either(PointwiseOp::greater, 1, either(PointwiseOp::less, -1, x));
}

// Operands have the type of the tensors among them; numbers are rounded to it.
Value ExpressionKernel::applied(const Expression& expression) {
  const bool selects = expression.is(Operation::select);
  std::optional<ElementType> type;
  for (size_t i = selects ? 1 : 0; i < expression.operands().size(); ++i) {
    const TensorType operand = program_.type(expression.operands()[i]);
    if (!operand.is_scalar()) type = operand.element;
  }
  std::vector<Value> operands;
  for (const Expression& operand : expression.operands()) operands.push_back(build(operand));
  if (!type) type = number_type(expression, operands, selects);
  for (size_t i = selects ? 1 : 0; i < operands.size(); ++i) operands[i] = as(operands[i], *type);
  return made_.kernel.apply(pointwise_op(expression.operation()), operands);
}

ElementType ExpressionKernel::number_type(const Expression& expression, const std::vector<Value>& operands,
                                          bool selects) const {
  const ElementType result = program_.type(expression).element;
  return result == ElementType::boolean ? made_.kernel.type_of(operands[selects ? 1 : 0]) : result;
}

}  // namespace axonn::coconet
