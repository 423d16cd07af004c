#pragma once

#include <vector>

#include "axonn/grid/grid_shape.hpp"
#include "support/rank_test.hpp"

namespace axonn::test {

// Every grid of the job's ranks. From 8 ranks on, those that split at least three axes, and of 8
// also those on which X and Y have all of the ranks; at night all grids of 8.
inline std::vector<GridShape> every_grid() {
  const int ranks = test_environment().ranks();
  std::vector<GridShape> grids = factorisations(ranks);
  if (ranks > 8 || (ranks == 8 && !tests_everything()))
    std::erase_if(grids, [&](const GridShape& grid) {
      const int split = (grid.x > 1) + (grid.y > 1) + (grid.z > 1) + (grid.data > 1);
      return split < 3 && (ranks > 8 || grid.x * grid.y < ranks);
    });
  return grids;
}

}  // namespace axonn::test
