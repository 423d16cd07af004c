#pragma once

#include <functional>
#include <string_view>

#include "axonn/layers/layout.hpp"
#include "layers/operation.hpp"

// Activations whose rows the ranks along an axis divide (Layout::rows). Each call is also for those
// that are not divided, whose layout has no rows. Every rank of the axis makes the same calls.
namespace axonn {

// Starts to gather all rows: (my rows, features) -> (rows, features). Not divided: as they are.
Pending all_rows(Context& context, const Tensor& mine, const Layout& layout, std::string_view tag);

// Starts to sum `tensor` (..., features), which is contiguous, over `axis`, the one whose ranks
// divide the rows of `layout`: my rows of the sum, (my rows, features). Not divided: all of it.
Pending sum_of_rows(Context& context, const Tensor& tensor, Axis axis, const Layout& layout, std::string_view tag);

// ShardedParameter::reduce() where all ranks along `axes` hold the parameter alike, and `write`
// gives the gradient of this rank's rows only: it is summed over them first, in fp32 if the
// parameter's gradient is narrower. An empty set: all rows.
void reduce_over(Scheduler& scheduler, AxisSet axes, const ShardedParameter& parameter,
                 const std::function<void(const Tensor& block, bool add)>& write);

}  // namespace axonn
