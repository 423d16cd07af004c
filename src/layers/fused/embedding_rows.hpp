#pragma once

#include <cstdint>

#include <c10/core/ScalarType.h>

// The kernels of an embedding's gradient: one launch puts the tokens in the order of their words,
// one sums the gradients of each word.
namespace axonn {

// Tokens and the gradients of their rows, in CUDA device memory, contiguous. Tokens of words that
// are not here are left out.
struct TokenGradients {
  c10::ScalarType type = c10::ScalarType::Float;  // fp64, fp32, bf16 or fp16
  int64_t tokens = 0;                             // below 2^31
  int64_t width = 0;
  const void* gradients = nullptr;  // (tokens, width)
  const int64_t* ids = nullptr;     // (tokens)
  int64_t first = 0;                // words [first, first + here) are here
  int64_t here = 0;
  int64_t words = 0;  // here, and padding after them; below 2^31
};

// How many numbers of memory embedding_backward() needs.
int64_t token_order_size(const TokenGradients& tokens);

// Writes or adds to `sums` (words, width), fp32 or, for fp64, fp64: for each word the sum over its
// tokens in their order, so the bits are the same each time; 0 without tokens. It overwrites
// `order`, which is token_order_size() numbers. On the current stream of CUDA device `device`;
// BackendError if a launch fails or CUDA is not built in.
void embedding_backward(const TokenGradients& tokens, int32_t* order, void* sums, bool add, int device);

}  // namespace axonn
