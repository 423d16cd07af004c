#pragma once

#include <memory>

#include "layers/operation.hpp"

namespace axonn {

// Causal self-attention of the heads of one rank: qkv (batch, sequence, 3, heads, features of a head) -> (batch, sequence, heads * features
// of a head). Computed in blocks of `rows` queries with the keys up to their end, so that about half of what lies above the diagonal is
// never computed, by batched products, which on CPUs are faster than LibTorch's fused kernel for sequences of hundreds of tokens (two AMD
// cores, forward and backward: 1.1 to 1.7 times in fp32, 1.7 to 2.8 times in bf16). Keeps the probabilities: (sequence + rows) / 2 elements a query and head.
std::unique_ptr<Operation> causal_attention(int64_t rows);

}  // namespace axonn
