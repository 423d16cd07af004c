#pragma once

#include <memory>

#include "layers/operation.hpp"

namespace axonn {

// Causal self-attention of the heads of one rank: queries, keys and values, each (batch, sequence,
// heads, features of a head) -> (batch, sequence, heads * features of a head). It runs batched
// products on blocks of `rows` queries with the keys up to the block's end, so scores beyond it are
// never computed. A sample's blocks follow each other, so they stay in the cache. Heads are read
// and written where they lie. Only with 16-bit types and `products` fp32, a sample is copied to
// fp32 and back. It keeps the input and the probabilities, in the input's type: (sequence + rows) /
// 2 elements per query and head. The three gradients lie in one tensor (heads_in_one()). Equal bits
// on any number of threads.
std::unique_ptr<TensorOperation> causal_attention(int64_t rows, at::ScalarType products);

}  // namespace axonn
