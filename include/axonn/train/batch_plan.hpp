#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "axonn/grid/row_share.hpp"

namespace axonn {

// How a step's samples are distributed: batch = micro_batches * micro_batch * z * data, or that
// divided by `context`, the ranks along Z that have the same samples and divide their sequences.
struct BatchPlan {
  int64_t batch = 0;        // samples per step over the whole grid
  int64_t micro_batch = 0;  // samples per rank per forward pass, or per `context` ranks
  int64_t micro_batches = 0;
  int64_t row_group = 0;  // RowShare::mine

  // Number of the first sample of this rank's micro-batch j. The `micro_batch` samples are
  // consecutive.
  int64_t first_sample(int64_t step, int64_t j) const;
};

// Derives the number of micro-batches. UserError if the batch does not
// divide, or `context` does not divide z.
BatchPlan plan_batch(int64_t batch, int64_t micro_batch, const GridShape& shape, const Coordinate& at,
                     int64_t context = 1);
// Derives the size of a micro-batch from the number of micro-batches.
BatchPlan plan_micro_batches(int64_t batch, int64_t micro_batches, const GridShape& shape, const Coordinate& at,
                             int64_t context = 1);

// "batch 64 = 2 micro-batches x 16 sequences per rank x z 2 x data 1"; `samples`: "sequences". With
// context 2, "... 16 sequences per 2 ranks x z 4 / 2 x data 1".
std::string batch_text(const BatchPlan& plan, std::string_view samples, const GridShape& shape, int64_t context = 1);

}  // namespace axonn
