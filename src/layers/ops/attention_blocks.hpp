#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/grid/context_ring.hpp"

namespace axonn {

// Some queries and some keys of a sequence. Of both: rows of the tensors that hold them, and the
// tokens that these are.
struct AttentionBlock {
  TokenRun queries, keys;
};

// The keys that a query sees: with `causal` its own and those before it, and in a window only the
// last `window` of these.
struct Sight {
  bool causal = true;
  int64_t window = 0;  // 0: no window
};

// The blocks in which a query of `queries` sees a key of `keys`, without the keys that no query of
// a block sees, and of at most 256 queries and 512 keys.
std::vector<AttentionBlock> attention_blocks(const std::vector<TokenRun>& queries, const std::vector<TokenRun>& keys,
                                             const Sight& sight);

// Attention whose keys come in blocks, on any device. The softmax over all of them is exact: each
// query keeps the largest score and the sum of exponentials of what it has seen so far (Milakov and
// Gimelshein, Online normalizer calculation for softmax, 2018). All of it is in fp32, or fp64 for
// fp64, whatever the heads are.
//
// queries (batch, q, heads, f). Keys and values lie in one tensor (2, batch, kv, k, f); heads / kv
// heads of queries, which follow each other, share a head of keys.
class BlockedAttention {
 public:
  // A tensor (batch, heads, queries, keys) of a block; undefined: none.
  using OfBlock = std::function<at::Tensor(const AttentionBlock&, const at::Tensor& like)>;
  struct Options {
    Sight sight;
    OfBlock added;    // to the scores, such as a mask of documents; may have sizes of 1
    OfBlock dropped;  // factors of the probabilities: 0 or 1 / (1 - rate)
  };

  BlockedAttention(const at::Tensor& queries, int64_t key_heads, Options options);

  // Forward: begin(), every block once, then end().
  void begin();
  void attend(const AttentionBlock& block, const at::Tensor& keys_values);
  struct Result {
    at::Tensor output;  // (batch, q, heads, f), of the type of the queries
    at::Tensor sums;    // (batch, heads, q, 1): the logarithm of the sum of a query's exponentials
  };
  Result end();

  // Backward: begin_backward(), then every block once. Adds the gradients of the block's keys and
  // values to `to`, which has the sizes of keys_values and is in fp32, or fp64.
  void begin_backward(const Result& result, const at::Tensor& grad_output /* (batch, q, heads, f) */);
  void attend_backward(const AttentionBlock& block, const at::Tensor& keys_values, const at::Tensor& to);
  const at::Tensor& grad_queries() const { return grad_queries_; }  // (batch, heads, q, f), in fp32, or fp64

 private:
  at::Tensor rows_of(const at::Tensor& by_head, const AttentionBlock& block) const;
  at::Tensor scores_of(const at::Tensor& queries, const at::Tensor& keys, const AttentionBlock& block) const;
  // (batch, heads, r, n) as (batch, kv, heads / kv * r, n), and back.
  at::Tensor grouped(const at::Tensor& by_head) const;
  at::Tensor ungrouped(const at::Tensor& by_key_head) const;

  int64_t heads_, key_heads_;
  at::ScalarType type_;
  double scale_;
  Options options_;
  at::Tensor queries_;                     // (batch, heads, q, f)
  at::Tensor greatest_, sums_, output_;    // so far: (batch, heads, q, 1 or f)
  at::Tensor grad_output_, grad_queries_;  // (batch, heads, q, f)
  at::Tensor logarithms_, dots_;           // (batch, heads, q, 1): of sums; of outputs with their gradients
};

}  // namespace axonn
