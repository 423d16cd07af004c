#include "coconet/oracle/expression_values.hpp"

#include <algorithm>
#include <array>

#include "axonn/core/error.hpp"
#include "axonn/core/philox.hpp"

namespace axonn::coconet {

RankValues ExpressionValues::of(const Expression& expression) const {
  switch (expression.operation()) {
    case Operation::reference:
      return memory_.seen(expression.name(), group_);
    case Operation::constant:
      return {{}, options_.ranks, expression.number()};
    case Operation::ranks:
      return {{}, options_.ranks, static_cast<double>(options_.ranks)};
    case Operation::dropout:
      return dropped(expression.attributes(), of(expression.operands()[0]));
    case Operation::slice:
    case Operation::load:
      return part(expression);
    default:
      return pointwise(expression);
  }
}

RankValues ExpressionValues::pointwise(const Expression& expression) const {
  const OperationInfo& row = info(expression.operation());
  AXONN_ASSERT(row.meaning != nullptr, "(", row.name, " is not element by element)");
  constexpr size_t kMostOperands = 3;
  std::vector<RankValues> operands;
  std::array<std::vector<int64_t>, kMostOperands> place;
  for (const Expression& operand : expression.operands()) operands.push_back(of(operand));
  Extents extents = operands[0].extents;
  for (const RankValues& operand : operands) extents = broadcast_extents(extents, operand.extents);
  for (size_t k = 0; k < operands.size(); ++k) place[k] = places(operands[k].extents, extents);
  RankValues result(extents, options_.ranks, missing());
  for (int rank = 0; rank < options_.ranks; ++rank)
    for (int64_t i = 0; i < result.count; ++i) {
      std::array<double, kMostOperands> numbers{};
      bool there = true;
      for (size_t k = 0; k < operands.size() && there; ++k) {
        const int64_t at = place[k][static_cast<size_t>(i)];
        there = at >= 0 && !is_missing(operands[k].of(rank)[at]);
        if (there) numbers[k] = operands[k].of(rank)[at];
      }
      if (there) result.of(rank)[i] = row.meaning(numbers.data());
    }
  return result;
}

RankValues ExpressionValues::part(const Expression& expression) const {
  RankValues values = of(expression.operands()[0]);
  const Attributes& attributes = expression.attributes();
  const Distribution lies =
      expression.is(Operation::slice) ? Distribution::sliced(attributes.dim) : Distribution::rooted(attributes.root);
  const std::vector<int> holders = holders_of(lies, values.extents, options_.cut, options_.ranks);
  for (int rank = 0; rank < options_.ranks; ++rank)
    for (int64_t i = 0; i < values.count; ++i)
      if (!holds(holders[static_cast<size_t>(i)], rank)) values.of(rank)[i] = missing();
  return values;
}

RankValues ExpressionValues::dropped(const Attributes& attributes, RankValues values) const {
  const double p = attributes.probability;
  for (int64_t i = 0; i < values.count; ++i) {
    const auto words =
        philox(options_.seed, static_cast<uint64_t>(i / 4), options_.step, static_cast<uint32_t>(attributes.stream));
    const bool drops = to_uniform(words[static_cast<size_t>(i % 4)]) < p;
    for (int rank = 0; rank < options_.ranks; ++rank) {
      double& element = values.of(rank)[i];
      if (!is_missing(element)) element = drops ? 0 : element * (1 / (1 - p));
    }
  }
  return values;
}

Extents ExpressionValues::extents_of(const Expression& expression) const {
  if (expression.is(Operation::reference)) return memory_.at(expression.name()).values.extents;
  Extents extents;
  for (const Expression& operand : expression.operands()) {
    const bool first = &operand == expression.operands().data();
    extents = first ? extents_of(operand) : broadcast_extents(extents, extents_of(operand));
  }
  return extents;
}

int ExpressionValues::sliced_dim(const Expression& expression) const {
  if (expression.is(Operation::slice)) return expression.attributes().dim;
  if (expression.is(Operation::reference)) {
    const Distribution& lies = program_.type(expression.name()).distribution;
    return lies.is(Placement::sliced) ? lies.dim : -1;
  }
  int dim = -1;
  const auto dims = std::ssize(extents_of(expression));
  for (const Expression& operand : expression.operands()) {
    const int inner = sliced_dim(operand);
    if (inner >= 0) dim = std::max(dim, inner + static_cast<int>(dims - std::ssize(extents_of(operand))));
  }
  return dim;
}

}  // namespace axonn::coconet
