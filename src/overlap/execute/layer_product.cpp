#include "overlap/execute/layer_product.hpp"

#include <array>
#include <vector>

#include <ATen/ops/matmul.h>

namespace axonn {
using namespace coconet;

RowProduct product_of(const SchedulePlan& plan, const PlanStep& step, const FlatMemory& memory) {
  const std::vector<ValueId>& operands = plan[step.statements[0]].operands;
  // `summed`: the dim of the matrix that is summed, of which a sliced operand has a part.
  const auto matrix = [&](ValueId operand, int64_t summed) {
    const FlatMemory::Buffer& buffer = memory.buffer(plan.home(operand));
    std::array<int64_t, 2> extents{buffer.count / buffer.extents.back(), buffer.extents.back()};
    const Range own = memory.own_indices(extents[static_cast<size_t>(summed)]);
    if (buffer.by_dim) extents[static_cast<size_t>(summed)] = own.size();
    const at::Tensor all = buffer.data.view(extents);
    const bool part = plan[operand].type.distribution.is(coconet::Placement::sliced) && !buffer.by_dim;
    return part ? all.narrow(summed, own.begin, own.size()) : all;
  };
  const at::Tensor rows = matrix(operands[0], 1), weight = matrix(operands[1], 0);
  return {.rows = rows.size(0),
          .width = weight.size(1),
          .options = rows.options(),
          .all = [rows, weight] { return at::matmul(rows, weight); },
          .some = [rows, weight](const at::Tensor& to,
                                 Range some) { to.copy_(at::matmul(rows.narrow(0, some.begin, some.size()), weight)); },
          .owner = {}};
}

}  // namespace axonn
