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

// Tokens of a word that are summed one after the other. So a frequent word is the work of many
// blocks.
inline constexpr int kEmbeddingChunk = 128;

// How much device memory embedding_backward() needs beside its arguments.
int64_t embedding_scratch_bytes(const TokenGradients& tokens);

// Writes or adds to `sums` (words, width), fp32 or, for fp64, fp64: for each word the sum over its
// tokens, 0 without tokens. Each chunk of kEmbeddingChunk tokens of a word is summed in its order,
// and then the chunks, so the bits are the same each time. It overwrites `scratch`, which has
// embedding_scratch_bytes() and is aligned to 8 bytes. On the current stream of CUDA device
// `device`; BackendError if a launch fails or CUDA is not built in.
void embedding_backward(const TokenGradients& tokens, void* scratch, void* sums, bool add, int device);

}  // namespace axonn
