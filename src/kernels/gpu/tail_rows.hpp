#pragma once

#include <cstdint>

#include <c10/core/ScalarType.h>

namespace axonn {

// Rows of `width` numbers of type `type` (fp64, fp32, bf16 or fp16), contiguous, in CUDA device
// memory: residual + mask * (sums + bias). nullptr: without it.
struct TailRows {
  c10::ScalarType type = c10::ScalarType::Float;
  int64_t rows = 0;
  int64_t width = 0;
  void* sums = nullptr;            // the result is put here
  const void* bias = nullptr;      // one row
  const void* mask = nullptr;      // as the sums
  const void* residual = nullptr;  // as the sums
};

// One launch on the current stream of CUDA device `device`: computes in fp32 (fp64 for fp64) and
// rounds once. BackendError if the launch fails or CUDA is not built in.
void add_tail(const TailRows& tail, int device);

}  // namespace axonn
