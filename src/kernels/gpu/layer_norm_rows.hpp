#pragma once

#include <cstdint>

#include <c10/core/ScalarType.h>

// The kernels of a fused LayerNorm (fused_layer_norm.hpp): its backward in two launches.
namespace axonn {

// Left by forward: rows (rows, width) in CUDA device memory, contiguous, with their statistics.
// "Wide" is fp64 for fp64, and fp32 otherwise.
struct LayerNormRows {
  c10::ScalarType type = c10::ScalarType::Float;  // fp64, fp32, bf16 or fp16
  int64_t rows = 0;
  int64_t width = 0;
  const void* input = nullptr;                 // (rows, width)
  const void* mean = nullptr;                  // (rows), wide
  const void* reciprocal_deviation = nullptr;  // (rows), wide
  const void* weight = nullptr;                // (width)
};

// Whether the kernels take rows of this type and width: those that a block of threads holds.
bool layer_norm_rows_fit(c10::ScalarType type, int64_t width);

// How many partial sums of the gradients of weight and bias layer_norm_backward() makes.
int64_t layer_norm_parts(int64_t rows);

// grad_input (rows, width) = the gradient of the input, where `grad` (rows, width) is that of the
// output, plus `added` (rows, width; nullptr: 0). parts (layer_norm_parts(), 2, width), wide: sums
// of some rows for the weight, then for the bias. On the current stream of CUDA device `device`;
// BackendError if the launch fails or CUDA is not built in.
void layer_norm_backward(const LayerNormRows& rows, const void* grad, const void* added, void* grad_input, void* parts,
                         int device);

// Partial sums for a norm's weight, then for its bias: (count, 2, width), wide for `type`.
struct NormParts {
  c10::ScalarType type = c10::ScalarType::Float;
  int64_t count = 0;
  int64_t width = 0;
  const void* parts = nullptr;
};

// The place of their sum: (width), wide.
struct NormSum {
  void* gradient = nullptr;
  bool add = false;  // to what is there
};

// In a fixed order. Stream and errors as above.
void norm_sums(const NormParts& parts, const NormSum& weight, const NormSum& bias, int device);

}  // namespace axonn
