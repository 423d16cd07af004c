#pragma once

#include <string>

#include "axonn/layers/layout.hpp"

namespace axonn {

struct AttentionOptions {
  int64_t heads = 0;  // of the whole layer; split over `axis`, which must divide them
  bool causal = true;
  double dropout = 0;             // of the probabilities
  std::string dropout_name = {};  // tells the places of a network apart
  Axis axis = Axis::x;
};

// Multi-head self-attention with heads sharded: qkv (batch, sequence, 3 * features / axis) in segments q|k|v over `axis` ->
// (batch, sequence, features / axis) over the same axis. Nothing is exchanged; every rank of the other tensor axis computes the same heads.
// Causal attention without dropout is computed in blocks of attention_block() queries where that is faster, else by LibTorch's fused kernel.
Value attention(Context& context, const Value& qkv, const AttentionOptions& options);

// Queries of a block; it keeps (sequence + block) / 2 probabilities a query and head for backward. 0, the fused kernel and nothing of the
// kind, on GPUs and for sequences beyond 1024.
int64_t attention_block(int64_t sequence, c10::Device device);

}  // namespace axonn
