#include "axonn/coconet/plan/plan_values.hpp"

#include "axonn/core/error.hpp"

namespace axonn::coconet {

PlanValues::PlanValues(const Program& program) {
  const auto add = [&](PlanValue value, std::vector<ValueId>& to) {
    const ValueId id(values_.size());
    to.push_back(id);
    by_name_.emplace(value.name, id);
    values_.push_back(std::move(value));
  };
  for (const Declaration& declaration : program.declarations())
    add({.name = declaration.name,
         .type = declaration.type,
         .declared = true,
         .expression = Expression::reference(declaration.name)},
        declarations_);
  for (const Statement& statement : program.statements())
    add({.name = statement.name,
         .type = program.type(statement.name),
         .returned = program.is_output(statement.name),
         .expression = statement.expression},
        statements_);
  for (const ValueId id : statements_) {
    PlanValue& value = values_[id.index()];
    const Expression& root = value.expression;
    for (const Expression& operand : root.operands())
      value.operands.push_back(operand.is(Operation::reference) ? of(operand) : ValueId());
    root.for_each_reference([&](const std::string& name) {
      const ValueId read = find(name);
      value.references.push_back(read);
      std::vector<ValueId>& readers = values_[read.index()].readers;
      if (readers.empty() || readers.back() != id) readers.push_back(id);
    });
    if (root.is(Operation::update)) values_[value.operands[0].index()].update = id;
  }
}

ValueId PlanValues::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? ValueId() : found->second;
}

ValueId PlanValues::of(const Expression& reference) const {
  const ValueId id = find(reference.name());
  AXONN_ASSERT(id, "'", reference.name(), "'");
  return id;
}

}  // namespace axonn::coconet
