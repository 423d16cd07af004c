#include "coconet/language/typing.hpp"

#include <algorithm>
#include <optional>

#include "axonn/core/error.hpp"
#include "coconet/language/derivation.hpp"

namespace axonn::coconet {
namespace {

// Types of scalars: fp64, unless all operands are narrower.
ElementType wider(ElementType a, ElementType b) {
  if (a == b) return a;
  const bool both_halves = bytes_of(a) == 2 && bytes_of(b) == 2;
  return both_halves ? ElementType::fp32 : std::min(a, b);
}

// The distribution that both operands of an element by element operation can have. Slices count
// their dim in the result.
std::optional<Distribution> common(const TensorType& a, const TensorType& b, size_t dims) {
  const auto seen_in_result = [&](const TensorType& type) {
    Distribution seen = type.distribution;
    if (seen.is(Placement::sliced)) seen.dim += static_cast<int>(dims - type.shape.size());
    return seen;
  };
  const Distribution x = seen_in_result(a), y = seen_in_result(b);
  if (x == y) return x;
  const auto replicated_with = [&](const TensorType& whole, const Distribution& other) {
    if (!whole.distribution.is(Placement::replicated)) return false;
    if (whole.is_scalar() || other.is(Placement::local)) return true;
    if (!other.is(Placement::sliced)) return false;
    const int dim = other.dim - static_cast<int>(dims - whole.shape.size());
    return dim < 0 || (dim < std::ssize(whole.shape) && whole.shape[static_cast<size_t>(dim)].is_one());
  };
  if (replicated_with(a, y)) return y;
  if (replicated_with(b, x)) return x;
  return std::nullopt;
}

std::optional<Shape> broadcast_shapes(const Shape& a, const Shape& b) {
  Shape result = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  const size_t missing = result.size() - shorter.size();
  for (size_t dim = 0; dim < shorter.size(); ++dim) {
    Size& size = result[dim + missing];
    if (size.is_one()) size = shorter[dim];
    if (!shorter[dim].is_one() && shorter[dim] != size) return std::nullopt;
  }
  return result;
}

bool has_dim(const TensorType& type, int dim) {
  return dim >= 0 && dim < std::ssize(type.shape) && !type.shape[static_cast<size_t>(dim)].is_one();
}

}  // namespace

TensorType scalar_type() {
  return {.element = ElementType::fp64,
          .shape = {},
          .distribution = Distribution::replicated(),
          .group = TensorType::kEveryGroup};
}

TensorType TypingContext::derive(const Expression& expression) const { return Derivation(*this).of(expression); }

TensorType Derivation::of(const Expression& expression) const {
  switch (info(expression.operation()).kind) {
    case OperationKind::leaf:
      return expression.is(Operation::reference) ? context_.type_of(expression.name()) : scalar_type();
    case OperationKind::pointwise:
      return pointwise(expression);
    case OperationKind::part:
      return part(expression);
    case OperationKind::update:
      return updated(expression);
    case OperationKind::reduction:
      return reduction(expression);
    case OperationKind::layer:
      return expression.is(Operation::matmul) ? product(expression) : convolution(expression);
    case OperationKind::collective:
      return collective(expression);
    case OperationKind::send:
      return sent(expression);
  }
  return {};
}

void Derivation::check(bool holds, TypingRule rule, std::string_view got) const {
  context_.guards.check(holds, "coconet.typing", rule_of(rule), context_.place, got);
}

std::string Derivation::text_of(const Expression& expression) const {
  return (context_.written ? context_.written(expression) : expression).to_string();
}

TensorType Derivation::operand(const Expression& expression, size_t index) const {
  const TensorType type = of(expression.operands()[index]);
  const bool selects = expression.is(Operation::select) && index == 0;
  check((type.element == ElementType::boolean) == selects, booleans,
        text_of(expression.operands()[index]) + " " + type.to_string());
  return type;
}

TensorType Derivation::pointwise(const Expression& expression) const {
  const Operation operation = expression.operation();
  TensorType result;
  std::optional<ElementType> element, scalar;
  for (size_t i = 0; i < expression.operands().size(); ++i) {
    const TensorType type = operand(expression, i);
    if (type.element == ElementType::boolean)  // its shape counts, not its type
      ;
    else if (type.is_scalar())
      scalar = wider(scalar.value_or(type.element), type.element);
    else
      check(!element || *element == type.element, element_types,
            std::string(axonn::to_string(element.value_or(type.element))) + " and " + type.to_string()),
          element = type.element;
    result = i == 0 ? type : joined(result, type);
  }
  result.element = element ? *element : scalar.value_or(ElementType::fp64);
  if (operation == Operation::cast) {
    check(expression.attributes().element != ElementType::boolean, booleans, "cast(..., boolean)");
    result.element = expression.attributes().element;
  }
  const double p = expression.attributes().probability;
  if (operation == Operation::dropout) check(p >= 0 && p < 1, probability, detail::concatenate(p));
  if (info(operation).precedence == 1) result.element = ElementType::boolean;
  return result;
}

TensorType Derivation::joined(const TensorType& a, const TensorType& b) const {
  const std::string both = a.to_string() + " and " + b.to_string();
  check(a.group == b.group || a.group == TensorType::kEveryGroup || b.group == TensorType::kEveryGroup, groups, both);
  const auto shape = broadcast_shapes(a.shape, b.shape);
  check(shape.has_value(), shapes, both);
  const Shape result = shape.value_or(a.shape);
  const auto distribution = common(a, b, result.size());
  check(distribution.has_value(), distributions, both);
  return {.element = a.element,
          .shape = result,
          .distribution = distribution.value_or(a.distribution),
          .group = std::max(a.group, b.group)};
}

TensorType Derivation::part(const Expression& expression) const {
  TensorType type = operand(expression, 0);
  const int dim = expression.attributes().dim, root = expression.attributes().root;
  const bool whole = type.distribution.is(Placement::replicated);
  if (expression.is(Operation::slice)) {
    check(whole && has_dim(type, dim), slice, type.to_string() + ", dim " + std::to_string(dim));
    type.distribution = Distribution::sliced(dim);
  } else {
    check(whole && root >= 0, load, type.to_string() + ", root " + std::to_string(root));
    type.distribution = Distribution::rooted(root);
  }
  return type;
}

TensorType Derivation::updated(const Expression& expression) const {
  const Expression& target = expression.operands()[0];
  check(target.is(Operation::reference), update, text_of(target));
  const TensorType tensor = operand(expression, 0), value = operand(expression, 1);
  check(tensor == value, update, tensor.to_string() + " and " + value.to_string());
  return value;
}

TensorType Derivation::reduction(const Expression& expression) const {
  TensorType type = operand(expression, 0);
  const std::string got = type.to_string();
  const std::vector<int>& dims = expression.attributes().dims;
  std::vector<int> sorted = dims;
  std::ranges::sort(sorted);
  const bool distinct = std::ranges::adjacent_find(sorted) == sorted.end();
  const bool there = std::ranges::all_of(dims, [&](int dim) { return dim >= 0 && dim < std::ssize(type.shape); });
  check(distinct && there, reduced_dims, text_of(expression) + " of " + got);
  const auto reduces = [&](int dim) { return dims.empty() || std::ranges::count(dims, dim) > 0; };
  const bool sums = expression.is(Operation::norm) || expression.attributes().reduction == ReduceOp::sum;
  if (sums) type.element = ElementType::fp64;
  if (type.distribution.is(Placement::sliced) && reduces(type.distribution.dim)) {
    check(!expression.is(Operation::norm), norm, got);
    type.distribution = Distribution::local();
  }
  for (int dim = 0; dim < std::ssize(type.shape); ++dim)
    if (reduces(dim)) type.shape[static_cast<size_t>(dim)] = 1;
  if (dims.empty()) type.shape.clear();
  return type;
}

TensorType Derivation::collective(const Expression& expression) const {
  TensorType type = operand(expression, 0);
  const Distribution before = type.distribution;
  const int dim = expression.attributes().dim, root = expression.attributes().root;
  const std::string got = type.to_string();
  switch (expression.operation()) {
    case Operation::all_reduce:
      check(before.is(Placement::local), all_reduce, got);
      type.distribution = Distribution::replicated();
      break;
    case Operation::reduce_scatter:
      check(before.is(Placement::local) && has_dim(type, dim), reduce_scatter, got + ", dim " + std::to_string(dim));
      type.distribution = Distribution::sliced(dim);
      break;
    case Operation::reduce:
      check(before.is(Placement::local) && root >= 0, reduce, got + ", root " + std::to_string(root));
      type.distribution = Distribution::rooted(root);
      break;
    case Operation::all_gather:
      check(before.is(Placement::sliced), all_gather, got);
      type.distribution = Distribution::replicated();
      break;
    default:
      check(before.is(Placement::rooted), broadcast, got);
      type.distribution = Distribution::replicated();
  }
  return type;
}

TensorType Derivation::sent(const Expression& expression) const {
  TensorType type = operand(expression, 0);
  const int64_t group = int64_t{type.group} + expression.attributes().group;
  check(type.group != TensorType::kEveryGroup && group != type.group && group >= 0 && group < context_.groups, send,
        type.to_string() + " to group " + std::to_string(group) + " of " + std::to_string(context_.groups));
  type.group = static_cast<int>(group);
  return type;
}

}  // namespace axonn::coconet
