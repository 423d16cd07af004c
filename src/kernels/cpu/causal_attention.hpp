#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace axonn {

struct CausalAttentionOptions {
  int64_t rows = 64;   // queries of a block
  int64_t window = 0;  // keys that a query sees, its own among them; 0: all before it
  at::ScalarType products = at::kFloat;
};

// Causal self-attention of the heads of one rank: queries, keys and values, each (batch, sequence,
// heads, features of a head). Queries may be fewer than keys: then they are those of the last
// places. Keys and values have fewer heads if several heads of queries, which follow each other,
// share one. It runs batched products on blocks of queries with the keys that the block sees, so
// scores of others are never computed. A sample's blocks follow each other, so they stay in the
// cache. Heads are read and written where they lie. Only with 16-bit types and `products` fp32, a
// sample is copied to fp32 and back. Equal bits on any number of threads.
class CausalAttention {
 public:
  explicit CausalAttention(CausalAttentionOptions options) : options_(options) {}

  using Heads = std::array<at::Tensor, 3>;  // queries, keys, values

  // Returns (batch, queries, heads, features of a head), and per block the probabilities that
  // backward() needs, in the input's type: (sequence + rows) / 2 elements per query and head, or
  // at most window + rows; of the last queries more.
  struct Result {
    at::Tensor output;
    std::vector<at::Tensor> probabilities;  // per block (batch, heads, rows of the block, keys)
  };
  Result forward(const Heads& heads) const;
  // Puts the gradients of the three into `gradients`, which have their sizes and any strides.
  void backward(const Heads& heads, const std::vector<at::Tensor>& probabilities, const at::Tensor& grad,
                const Heads& gradients) const;

 private:
  CausalAttentionOptions options_;
};

}  // namespace axonn
