#pragma once

#include <array>

#include "layers/ops/attention/attention_rules.hpp"

namespace axonn {

// The sequence that some queries are rows of, from `first` on.
struct QueryRows {
  int64_t first, sequence;
};

// Attention of some rows of queries by LibTorch's operations, to the keys from 0 on that they may
// see: queries, keys and values, (batch, tokens, heads, f) each -> (batch, rows, heads f). Without
// dropout by its fused kernel: causal attention in a window, or of later rows, in blocks of 512
// queries with a mask. With dropout all scores are kept. terms.documents has all queries of the
// sequence.
at::Tensor library_attention(Context& context, const std::array<at::Tensor, 3>& heads, const AttentionTerms& terms,
                             const QueryRows& place);

}  // namespace axonn
