#pragma once

#include <memory>

#include "layers/operation.hpp"
#include "layers/ops/attention_rules.hpp"

namespace axonn {

// attention_tiles() as an operation, on a CPU: queries that are tokens from `first` on of a
// sequence, and its first keys and values, each (batch, tokens, heads, features of a head) ->
// (batch, queries, heads of queries * features of a head). It keeps its inputs, the output, and a
// number per query and head. With as many queries as keys, the three gradients lie in one tensor
// (heads_in_one()).
std::unique_ptr<TensorOperation> tiled_attention(Context& context, AttentionTerms terms, int64_t first,
                                                 int64_t sequence);

}  // namespace axonn
