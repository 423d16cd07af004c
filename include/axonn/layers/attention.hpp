#pragma once

#include <memory>
#include <string>
#include <vector>

#include "axonn/layers/layout.hpp"
#include "axonn/layers/rotary.hpp"

namespace axonn {

struct AttentionOptions {
  int64_t heads = 0;     // heads of the queries of the whole layer; split over `axis`, which must divide them
  int64_t kv_heads = 0;  // heads of keys and of values, which divide `heads` and are split alike; 0: heads
  bool causal = true;
  int64_t window = 0;             // causal only: keys that a query sees, its own among them; 0: all before it
  double dropout = 0;             // probability of dropping an attention probability
  std::string dropout_name = {};  // distinguishes the places of a network
  Axis axis = Axis::x;
  std::shared_ptr<const Rotary> rotary = {};  // turns queries and keys; null: they are as they come
  bool divides_rows = true;  // as ForwardSchedule's attention_rows and context say; false: all tokens are here

  int64_t keys() const { return kv_heads > 0 ? kv_heads : heads; }
};

// The heads of one rank, each with its own number of them: (batch, sequence, heads, features of a
// head). They may be views.
struct AttentionHeads {
  at::Tensor queries, keys, values;
};

// qkv (batch, ..., features / axis) in segments q|k|v over the axis as three views; all dims
// between are one sequence. Gradients that attention() gives to all three come back as one tensor,
// without a copy. Nothing is exchanged. With a rotation, queries and keys are turned where they
// lie, so qkv itself must not be read afterwards; sample b begins at position first[b], or all at
// 0. If ranks divide sequences, this rank's tokens have the positions of my_places().
AttentionHeads split_heads(Context& context, const Value& qkv, const AttentionOptions& options,
                           const std::vector<int64_t>& first = {});

// Multi-head attention with sharded heads: -> (batch, sequence, features / axis) over the axis,
// with the features of all queries. Each head of keys and values serves heads / kv_heads heads of
// queries that follow each other (Ainslie et al., GQA, 2023). On a CPU, causal attention without
// dropout is computed in blocks of attention_block() queries where that is faster; longer
// sequences, dropout and documents in tiles, which keep no scores; attention to all keys, and long
// causal attention of 16 bits, by LibTorch's fused kernel. On a GPU it is LibTorch's: within a
// window the fused kernel is given blocks of queries and their keys, so no mask has more than
// (window + 512) x 512 elements (Beltagy et al., Longformer, 2020); with dropout all scores are
// kept. `documents`, if given, is document_mask(): causal attention within documents.
//
// The ranks of the other tensor axis have the same heads. Either each computes the same and nothing
// is exchanged, or they divide the rows of queries (AttentionRows, grid/query_rows.hpp): then
// outputs and the gradients of queries are gathered over them, and the gradients of keys and values
// summed.
//
// If ranks along Z divide sequences (ForwardSchedule::context), `heads` are those of this rank's
// tokens, and keys and values go round these ranks beside the computation (ring attention; Liu et
// al., 2023). Both divisions go together. Every rank of the grid calls it.
Value attention(Context& context, const AttentionHeads& heads, const AttentionOptions& options,
                const at::Tensor& documents = {});

// The mask of several documents that follow each other in a sample: (batch, 1, sequence, sequence),
// 0 where a query sees a key, which is its own or an earlier one of the same document, and minus
// infinity elsewhere. `begins` (batch, sequence) int64: the place where each token's document
// begins. The mask has the type and device of `like`. With `places` (tokens) int64, it has only the
// queries at these places: (batch, 1, tokens, sequence), as attention() takes it if ranks divide
// sequences (my_places()).
at::Tensor document_mask(const at::Tensor& begins, const at::Tensor& like, const at::Tensor& places = {});

// Queries per block. A layer keeps (sequence + block) / 2 probabilities per query and head for
// backward. 0 means a kernel that keeps none: on GPUs and for sequences beyond 1024.
int64_t attention_block(int64_t sequence, c10::Device device);

}  // namespace axonn
