#pragma once

#include <vector>

#include "layers/layer_fixture.hpp"

// For tests whose ranks divide the rows of a residual stream.
namespace axonn::test {

inline Context context_with(const GridShape& grid, NormRows rows, const OverlapPolicy& overlap = {},
                            LinearSchedule linear = LinearSchedule::mm_ar_c) {
  return Context(test_environment(), grid,
                 {.dtype = at::kDouble, .overlap = overlap, .forward = {.linear = linear, .norm_rows = rows}});
}

inline std::vector<GridShape> grids_with_x() {
  std::vector<GridShape> grids = every_grid();
  std::erase_if(grids, [](const GridShape& grid) { return grid.x == 1; });
  return grids;
}

// This rank's rows of a whole tensor (batch, sequence, features), as a layout has them.
inline at::Tensor my_part(const Context& context, const at::Tensor& whole, const Layout& layout) {
  const at::Tensor mine = my_value(context, whole, layout.with_rows({})).tensor;
  if (layout.rows.empty()) return mine;
  const Range rows = layout.my_rows(context);
  return mine.flatten(0, 1).narrow(0, rows.begin, rows.size()).contiguous();
}

}  // namespace axonn::test
