#pragma once

#include <memory>

#include "layers/operation.hpp"

namespace axonn {

// CausalAttention as an operation: queries, keys and values, each (batch, sequence, heads, features
// of a head) -> (batch, sequence, heads * features of a head). It keeps the inputs and the
// probabilities. The three gradients lie in one tensor (heads_in_one()).
std::unique_ptr<TensorOperation> attention_operation(int64_t rows, at::ScalarType products);

}  // namespace axonn
