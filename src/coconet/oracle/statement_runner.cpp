#include "coconet/oracle/statement_runner.hpp"

#include <algorithm>
#include <cmath>

#include "coconet/oracle/collective_values.hpp"
#include "coconet/oracle/layer_values.hpp"

namespace axonn::coconet {
namespace {

// Of a reduction: `kept` is the extents of its operand with 1 for the dims that it reduces.
Extents kept_extents(const Attributes& attributes, Extents extents) {
  for (int dim = 0; dim < std::ssize(extents); ++dim)
    if (attributes.dims.empty() || std::ranges::count(attributes.dims, dim) > 0) extents[static_cast<size_t>(dim)] = 1;
  return extents;
}

}  // namespace

int64_t StatementRunner::loop_count(const Statement& statement) const {
  if (!statement.expression.is(OperationKind::reduction)) return memory_.at(statement.name).values.count;
  return count_of(values_for(statement).extents_of(statement.expression.operands()[0]));
}

void StatementRunner::take(const Statement& statement, ElementRange range) {
  const ElementRange inside = within_loop(statement, range);
  switch (info(statement.expression.operation()).kind) {
    case OperationKind::leaf:
    case OperationKind::pointwise:
    case OperationKind::part:
      return take_expression(statement.expression, statement, inside);
    case OperationKind::update:
      return take_expression(statement.expression.operands()[1], statement, inside);
    case OperationKind::reduction:
      return take_reduction(statement, inside);
    case OperationKind::layer:
      return take_layer(statement, inside);
    case OperationKind::collective:
    case OperationKind::send:
      return take_collective(statement, inside);
  }
}

void StatementRunner::deliver(const Statement& statement, ElementRange range) {
  RankValues& values = taken(statement, missing());
  if (!statement.expression.is(OperationKind::reduction))
    return memory_.write(statement, within_loop(statement, range), values);
  if (!statement.expression.is(Operation::norm)) return memory_.write(statement, {0, values.count}, values);
  RankValues roots = values;
  for (double& element : roots.elements)
    if (!is_missing(element)) element = std::sqrt(element);
  memory_.write(statement, {0, roots.count}, roots);
}

void StatementRunner::run(const Statement& statement, ElementRange range) {
  take(statement, range);
  deliver(statement, range);
}

void StatementRunner::take_again(const Statement& statement, ElementRange range) {
  const RankValues before = taken(statement, missing());
  take(statement, range);
  RankValues& values = taken(statement, missing());
  for (size_t i = 0; i < values.elements.size(); ++i)
    if (!is_same(before.elements[i], values.elements[i])) values.elements[i] = missing();
}

ElementRange StatementRunner::within_loop(const Statement& statement, ElementRange range) const {
  const int64_t count = loop_count(statement);
  return {std::min(range.begin, count), std::min(range.end, count)};
}

RankValues& StatementRunner::taken(const Statement& statement, double start) {
  const auto found = taken_.find(statement.name);
  if (found != taken_.end()) return found->second;
  const RankValues empty(memory_.at(statement.name).values.extents, options_.ranks, start);
  return taken_.insert({statement.name, empty}).first->second;
}

ExpressionValues StatementRunner::values_for(const Statement& statement) const {
  return {program_, memory_, options_, memory_.at(statement.name).type.group};
}

void StatementRunner::take_expression(const Expression& expression, const Statement& statement, ElementRange range) {
  const RankValues values = values_for(statement).of(expression);
  RankValues& result = taken(statement, missing());
  const std::vector<int64_t> place = places(values.extents, result.extents);
  for (int rank = 0; rank < options_.ranks; ++rank)
    for (int64_t i = range.begin; i < range.end; ++i) {
      const int64_t from = place[static_cast<size_t>(i)];
      result.of(rank)[i] = from < 0 ? missing() : values.of(rank)[from];
    }
}

void StatementRunner::take_reduction(const Statement& statement, ElementRange range) {
  const Attributes& attributes = statement.expression.attributes();
  const Expression& operand = statement.expression.operands()[0];
  const bool squares = statement.expression.is(Operation::norm);
  const ReduceOp reduction = squares ? ReduceOp::sum : attributes.reduction;
  const ExpressionValues expressions = values_for(statement);
  const RankValues values = expressions.of(operand);
  const int dim = expressions.sliced_dim(operand);
  const std::vector<int> holders = holders_of(dim < 0 ? Distribution::replicated() : Distribution::sliced(dim),
                                              values.extents, options_.cut, options_.ranks);
  RankValues& result = taken(statement, start_of(reduction));
  if (count_of(kept_extents(attributes, values.extents)) != result.count) {
    result.elements.assign(result.elements.size(), missing());
    return;
  }
  const std::vector<int64_t> place = places(kept_extents(attributes, values.extents), values.extents);
  for (int rank = 0; rank < options_.ranks; ++rank)
    for (int64_t i = range.begin; i < range.end; ++i) {
      if (!holds(holders[static_cast<size_t>(i)], rank)) continue;
      const double element = values.of(rank)[i];
      double& sum = result.of(rank)[place[static_cast<size_t>(i)]];
      sum = combine(reduction, sum, squares && !is_missing(element) ? element * element : element);
    }
}

void StatementRunner::take_layer(const Statement& statement, ElementRange range) {
  const int group = memory_.at(statement.name).type.group;
  std::vector<LayerOperand> operands;
  for (const Expression& operand : statement.expression.operands())
    operands.push_back({program_.type(operand.name()).distribution, memory_.seen(operand.name(), group)});
  compute_layer(statement.expression.operation(), operands[0], operands[1], options_.cut, range,
                taken(statement, missing()));
}

void StatementRunner::take_collective(const Statement& statement, ElementRange range) {
  const OracleEntry& from = memory_.at(statement.expression.operands()[0].name());
  RankValues& result = taken(statement, missing());
  if (statement.expression.is(OperationKind::send)) {
    const int group = from.type.group + statement.expression.attributes().group;
    if (group != from.type.group && group >= 0 && group < program_.parts().groups) send(from, range, result);
  } else {
    communicate(statement.expression, from, range, result);
  }
}

}  // namespace axonn::coconet
