#pragma once

#include <cstdint>

#include "axonn/grid/row_share.hpp"

namespace axonn {

// How a step's samples are dealt out (design, section 3): batch = micro_batches * micro_batch * z * data.
struct BatchPlan {
  int64_t batch = 0;        // samples a step over the whole grid
  int64_t micro_batch = 0;  // samples a rank a forward
  int64_t micro_batches = 0;
  int64_t row_group = 0;  // this rank's place among the z * data ranks with different rows

  // Number of the first sample of micro-batch j of this rank; its `micro_batch` samples follow one another.
  int64_t first_sample(int64_t step, int64_t j) const;
};

// Derives the accumulation; UserError when the batch does not divide.
BatchPlan plan_batch(int64_t batch, int64_t micro_batch, const GridShape& shape, const Coordinate& at);
// The other way round: into so many micro-batches.
BatchPlan plan_micro_batches(int64_t batch, int64_t micro_batches, const GridShape& shape, const Coordinate& at);

}  // namespace axonn
