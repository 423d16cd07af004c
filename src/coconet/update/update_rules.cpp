#include "coconet/update/update_rules.hpp"

#include <span>
#include <string>
#include <vector>

#include "axonn/coconet/update/update_program.hpp"

namespace axonn::coconet {
namespace {

constexpr Rule kRules[] = {
    {"update-plain", "an optimizer has one group of ranks and no fused or overlapped sections",
     "the trainer schedules it"},
    {"update-gradient", "an optimizer has one local tensor, the gradients, read by one all_reduce(+, ...) only",
     "replicas sum their gradients"},
    {"update-shapes",
     "every value of an optimizer has the gradients' shape [T, K], one number per tensor [T, 1], or none",
     "tensors of a network have many sizes"},
    {"update-weights", "an optimizer returns one value, the update of a replicated tensor: the weights",
     "it must update weights"},
    {"update-state", "a tensor [T, K] of an optimizer is the gradients, or is updated",
     "weights and state are all that the trainer stores"},
    {"update-rows", "a tensor [T, 1] of an optimizer is named decay, and is not updated",
     "the trainer gives it the weight decay"},
    {"update-operations", "an optimizer has computations, updates, and reductions over all dims or over dim 1 only",
     "every rank holds a part of each tensor"},
    {"update-start", "only state has a value at first, and it is a number or a copy of the weights",
     "the trainer gives all other tensors, and knows no others when it begins"},
    {"update-norm", "gradient_norm of an optimizer is a number, such as gradient_norm = norm(sum)",
     "a gradient that is not finite must not pass unseen"},
    {"update-factor", "the factor of gradients, scale, is a number", "it clips, and undoes the factor of the loss"},
    {"update-scalars", "a scalar has a value, or is lr, step, max_norm or unscale", "the trainer sets only these"},
};

bool reduces_rows_or_all(const Attributes& attributes) {
  return attributes.dims.empty() || attributes.dims == std::vector<int>{1};
}

}  // namespace

std::span<const Rule> update_rules() { return kRules; }

void check(bool holds, UpdateRule rule, const Program& program, std::string_view got, int line) {
  const std::string place = program.name() + (line > 0 ? ", line " + std::to_string(line) : std::string());
  Guards{}.check(holds, "coconet.update", kRules[static_cast<size_t>(rule)], place, got);
}

void check_operations(const Program& program, const Expression& expression, const Statement& statement) {
  const bool fits = (expression.is(OperationKind::leaf) && !expression.is(Operation::ranks)) ||
                    expression.is(Operation::update) ||
                    (expression.is(OperationKind::pointwise) && !expression.is(Operation::dropout)) ||
                    (expression.is(OperationKind::reduction) && reduces_rows_or_all(expression.attributes()));
  check(fits, UpdateRule::operations, program, statement.name + " = " + statement.expression.to_string(),
        statement.line);
  for (const Expression& operand : expression.operands()) check_operations(program, operand, statement);
}

}  // namespace axonn::coconet
