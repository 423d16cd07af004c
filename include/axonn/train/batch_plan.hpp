#pragma once

#include <cstdint>

#include "axonn/grid/grid.hpp"

namespace axonn {

// How a step's sequences are dealt out (design, section 3): batch = micro_batches * micro_batch * z * data.
struct BatchPlan {
  int64_t batch = 0;        // sequences a step over the whole grid
  int64_t micro_batch = 0;  // sequences a rank a forward
  int64_t micro_batches = 0;
  int64_t row_group = 0;    // this rank's place among the z * data ranks with different rows

  // Number of the first sequence of micro-batch j of this rank; its `micro_batch` sequences follow one another.
  int64_t first_sample(int64_t step, int64_t j) const;
};

// Derives the accumulation; UserError when the batch does not divide.
BatchPlan plan_batch(int64_t batch, int64_t micro_batch, const GridShape& shape, const Coordinate& at);

}  // namespace axonn
