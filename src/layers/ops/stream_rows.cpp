#include "layers/ops/stream_rows.hpp"

#include <utility>

#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

namespace axonn {

Pending all_rows(Context& context, const Tensor& mine, const Layout& layout, std::string_view tag) {
  if (layout.rows.empty()) return Pending(mine);
  return context.scheduler().gather_rows(mine, c10::multiply_integers(layout.rows), layout.rows_axis(), tag);
}

Pending sum_of_rows(Context& context, const Tensor& tensor, Axis axis, const Layout& layout, std::string_view tag) {
  Scheduler& scheduler = context.scheduler();
  return layout.rows.empty() ? scheduler.all_reduce(tensor, axis, tag)
                             : scheduler.scatter_rows(rows_of(tensor), axis, tag);
}

void reduce_over(Scheduler& scheduler, AxisSet axes, const ShardedParameter& parameter,
                 const std::function<void(const Tensor& block, bool add)>& write) {
  if (axes.empty()) return parameter.reduce(write);
  parameter.reduce([&](const Tensor& block, bool add) {
    Tensor mine = at::empty(block.sizes(), block.options().dtype(wide_type(block)));
    write(mine, /*add=*/false);
    const Tensor sum = scheduler.all_reduce(std::move(mine), axes, parameter.name()).wait();
    add ? block.add_(sum) : block.copy_(sum);
  });
}

}  // namespace axonn
