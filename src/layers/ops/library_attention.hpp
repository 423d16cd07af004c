#pragma once

#include "axonn/layers/attention.hpp"

namespace axonn {

// The sequence that some queries are rows of, from `first` on.
struct QueryRows {
  int64_t first, sequence;
};

// Attention of some rows of queries by LibTorch's operations, to the keys from 0 on that they may
// see: (batch, rows, features on this rank). Without dropout by its fused kernel: causal attention
// in a window, or of later rows, in blocks of 512 queries with a mask. With dropout all scores are
// kept.
at::Tensor library_attention(Context& context, const AttentionHeads& heads, const AttentionOptions& options,
                             const QueryRows& place, const at::Tensor& documents);

}  // namespace axonn
