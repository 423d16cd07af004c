#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "axonn/grid/row_share.hpp"

namespace axonn {

// How a step's samples are distributed: batch = micro_batches * micro_batch * z * data.
struct BatchPlan {
  int64_t batch = 0;        // samples per step over the whole grid
  int64_t micro_batch = 0;  // samples per rank per forward pass
  int64_t micro_batches = 0;
  int64_t row_group = 0;  // index of this rank among the z * data ranks with different rows

  // Number of the first sample of this rank's micro-batch j. The `micro_batch` samples are
  // consecutive.
  int64_t first_sample(int64_t step, int64_t j) const;
};

// Derives the number of micro-batches. UserError if the batch does not divide.
BatchPlan plan_batch(int64_t batch, int64_t micro_batch, const GridShape& shape, const Coordinate& at);
// Derives the size of a micro-batch from the number of micro-batches.
BatchPlan plan_micro_batches(int64_t batch, int64_t micro_batches, const GridShape& shape, const Coordinate& at);

// "batch 64 = 2 micro-batches x 16 sequences per rank x z 2 x data 1"; `samples`: "sequences".
std::string batch_text(const BatchPlan& plan, std::string_view samples, const GridShape& shape);

}  // namespace axonn
