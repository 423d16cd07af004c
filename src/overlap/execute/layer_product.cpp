#include "overlap/execute/layer_product.hpp"

#include <ATen/ops/matmul.h>

namespace axonn::overlap {

RowProduct product_of(const SchedulePlan& plan, const PlanStep& step, const ExecutorMemory& memory) {
  const Program& program = plan.program();
  const Expression& root = program.statement(step.statements[0]).expression;
  const auto matrix = [&](const Expression& operand) {
    const ExecutorMemory::Buffer& buffer = memory.buffer(plan.home(operand.name()));
    return buffer.data.view({-1, extents_of(program.type(operand).shape, memory.sizes()).back()});
  };
  const at::Tensor rows = matrix(root.operands()[0]), weight = matrix(root.operands()[1]);
  return {.rows = rows.size(0),
          .width = weight.size(1),
          .options = rows.options(),
          .all = [rows, weight] { return at::matmul(rows, weight); },
          .some = [rows, weight](const at::Tensor& to,
                                 Range some) { to.copy_(at::matmul(rows.narrow(0, some.begin, some.size()), weight)); },
          .owner = {}};
}

}  // namespace axonn::overlap
