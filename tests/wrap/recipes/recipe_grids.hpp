#pragma once

#include <vector>

#include "axonn/grid/grid_shape.hpp"
#include "support/rank_test.hpp"

namespace axonn::test {

// Every axis has several ranks once.
inline std::vector<GridShape> recipe_grids() {
  switch (test_environment().ranks()) {
    case 1:
      return {{.data = 1}};
    case 2:
      return {{.z = 2}, {.data = 2}, {.x = 2}};
    default:
      return {{.x = 2, .z = 2}, {.y = 2, .data = 2}, {.z = 2, .data = 2}};
  }
}

}  // namespace axonn::test
