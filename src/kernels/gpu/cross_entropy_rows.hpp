#pragma once

#include <cstdint>

#include <c10/core/ScalarType.h>

// The kernels of a fused cross entropy (fused_cross_entropy.hpp): one pass over the logits forward,
// and one backward that puts the gradient in their place.
namespace axonn {

// Logits (rows, width) in CUDA device memory, contiguous: entries [first, first + columns) of a
// vocabulary of `vocabulary` entries, then padding, whose values do not matter.
struct LogitRows {
  void* logits = nullptr;
  c10::ScalarType type = c10::ScalarType::Float;  // fp64, fp32, bf16 or fp16
  int64_t rows = 0;                               // below 2^31
  int64_t width = 0;
  int64_t columns = 0;
  int64_t first = 0;
  int64_t vocabulary = 0;
  const int64_t* targets = nullptr;  // (rows), in device memory: entries of the vocabulary, or `ignored`
  int64_t ignored = 0;
};

// Per row, log(sum of exp(logit)) of the columns here (-infinity where there are none) and the
// target's logit (0 where another rank holds it, or it is ignored): (rows) in device memory, fp32
// or, for fp64 logits, fp64. NaN and 0 for a target that is no entry of the vocabulary. On the
// current stream of CUDA device `device`; BackendError if the launch fails or CUDA is not built in.
void cross_entropy_forward(const LogitRows& rows, void* log_sums, void* target_logits, int device);

// Overwrites the logits with scale * (exp(logit - log_sum) - 1 at the target), and padding and
// ignored rows with 0. log_sums: of the whole vocabulary. scale: one number. Both are in device
// memory, in the type of forward. Stream and errors as above.
void cross_entropy_backward(const LogitRows& rows, const void* log_sums, const void* scale, int device);

}  // namespace axonn
