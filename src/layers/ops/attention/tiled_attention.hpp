#pragma once

#include <memory>

#include "layers/operation.hpp"
#include "layers/ops/attention/attention_rules.hpp"

namespace axonn {

// HeadsAttention by attention_tiles(), on a CPU. The queries are tokens from `first` on of a
// sequence, and keys and values its first ones.
std::unique_ptr<TensorOperation> tiled_attention(Context& context, AttentionTerms terms, int64_t first,
                                                 int64_t sequence);

}  // namespace axonn
