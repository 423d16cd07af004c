#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "axonn/coconet/update/update_program.hpp"
#include "axonn/core/error.hpp"
#include "coconet/update/update_levels.hpp"

// The programs that are made of an optimizer's: other types, without or with a part, and its
// schedules.
namespace axonn::coconet {
namespace {

// Replaces references, but not the tensor that an update stores.
Expression with_values(const Expression& root, const std::function<Expression(const std::string&)>& replace) {
  if (!root.is(Operation::update)) return root.with_references(replace);
  return update(root.operands()[0], root.operands()[1].with_references(replace));
}

Expression with_casts(const Expression& expression, ElementType from, ElementType to) {
  if (expression.operands().empty()) return expression;
  std::vector<Expression> operands;
  for (const Expression& operand : expression.operands()) operands.push_back(with_casts(operand, from, to));
  Attributes attributes = expression.attributes();
  if (expression.is(Operation::cast) && attributes.element == from) attributes.element = to;
  return Expression::of(expression.operation(), std::move(operands), attributes);
}

Statement& statement_of(ProgramParts& parts, std::string_view name) {
  return *std::ranges::find(parts.statements, name, &Statement::name);
}

}  // namespace

UpdateProgram UpdateProgram::with_types(ElementType weights, ElementType gradients, ElementType master) const {
  ProgramParts parts = program_.parts();
  for (Declaration& declaration : parts.declarations) {
    ElementType& type = declaration.type.element;
    if (declaration.name == gradients_)
      type = gradients;
    else if (type == ElementType::fp32 && !declaration.type.is_scalar())
      type = master;
  }
  for (Statement& statement : parts.statements) {
    if (statement.name == sum_) continue;
    statement.expression = with_casts(statement.expression, ElementType::fp32, master);
    if (gradients != master)
      statement.expression = with_values(statement.expression, [&](const std::string& name) {
        const Expression reference = Expression::reference(name);
        return name == sum_ ? cast(reference, master) : reference;
      });
  }
  if (weights != master) {
    const std::string updated = parts.outputs[0], rounded = weights_ + ".rounded";
    Declaration declaration = *program_.find_declaration(weights_);
    declaration.name = rounded;
    declaration.type.element = weights;
    parts.declarations.push_back(std::move(declaration));
    parts.statements.push_back(
        {updated + ".rounded", update(Expression::reference(rounded), cast(Expression::reference(updated), weights))});
    parts.outputs = {updated + ".rounded"};
  }
  return UpdateProgram(Program(std::move(parts)));
}

UpdateProgram UpdateProgram::without_factor() const {
  ProgramParts parts = program_.parts();
  if (clips()) statement_of(parts, kGradientFactor).expression = Expression(1);
  return UpdateProgram(Program(std::move(parts)));
}

UpdateProgram UpdateProgram::with_average() const {
  AXONN_CHECK(!has_number(kAverage) && !has_number(kAverageRate), "coconet.update", name(), ": use other names than ",
              kAverage, " and ", kAverageRate, ", which the average of the weights has");
  ProgramParts parts = program_.parts();
  Declaration average = *program_.find_declaration(weights_);
  average.name = kAverage;
  parts.declarations.push_back(std::move(average));
  parts.declarations.push_back(
      {std::string(kAverageRate), TensorType{ElementType::fp64, {}, {}, TensorType::kEveryGroup}, 0});
  const Expression tensor = Expression::reference(std::string(kAverage)),
                   rate = Expression::reference(std::string(kAverageRate)),
                   updated = Expression::reference(parts.outputs[0]);
  parts.statements.push_back({std::string(kAverage) + "1", update(tensor, tensor + rate * (updated - tensor))});
  return UpdateProgram(Program(std::move(parts)));
}

Schedule UpdateProgram::scheduled(UpdateSchedule schedule) const {
  Schedule made(program_);
  if (schedule != UpdateSchedule::ar_opt) {
    std::vector<std::string> moved;
    for (const Statement& statement : program_.statements())
      if (statement.name != sum_ && touches_elements(program_, statement)) moved.push_back(statement.name);
    made.split(sum_, SplitPolicy::reduce_scatter, 1);
    made.reorder(sum_, moved);
    for (const std::string& tensor : state_) {
      made.as_slice(tensor);
      made.dead(program_.update_of(tensor)->name + ".whole");
    }
  }
  const bool with_collectives = schedule == UpdateSchedule::fuse;
  int pass = 0;
  for (const std::vector<std::string>& members : update_levels(made.program(), with_collectives)) {
    ++pass;
    if (members.size() > 1) made.fuse("pass" + std::to_string(pass), members);
  }
  return made;
}

}  // namespace axonn::coconet
