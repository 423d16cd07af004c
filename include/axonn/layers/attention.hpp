#pragma once

#include <string>

#include "axonn/layers/layout.hpp"

namespace axonn {

struct AttentionOptions {
  int64_t heads = 0;  // heads of the whole layer; split over `axis`, which must divide them
  bool causal = true;
  double dropout = 0;             // probability of dropping an attention probability
  std::string dropout_name = {};  // distinguishes the places of a network
  Axis axis = Axis::x;
};

// Multi-head self-attention with sharded heads: qkv (batch, sequence, 3 * features / axis) in
// segments q|k|v over `axis` -> (batch, sequence, features / axis) over the same axis. Nothing is
// exchanged. Every rank of the other tensor axis computes the same heads. Causal attention without
// dropout is computed in blocks of attention_block() queries where that is faster, else by
// LibTorch's fused kernel.
Value attention(Context& context, const Value& qkv, const AttentionOptions& options);

// Queries per block. A layer keeps (sequence + block) / 2 probabilities per query and head for
// backward. 0 means the fused kernel, which keeps none: on GPUs and for sequences beyond 1024.
int64_t attention_block(int64_t sequence, c10::Device device);

}  // namespace axonn
