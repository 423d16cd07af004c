#pragma once

#include <memory>

#include "kernels/cpu/causal_attention.hpp"
#include "layers/operation.hpp"

namespace axonn {

// CausalAttention as an operation: queries, keys and values, each (batch, sequence, heads, features
// of a head) -> (batch, queries, heads of queries * features of a head). It keeps the inputs and
// the probabilities. With as many queries as keys, the three gradients lie in one tensor
// (heads_in_one()).
std::unique_ptr<TensorOperation> attention_operation(const CausalAttentionOptions& options);

}  // namespace axonn
