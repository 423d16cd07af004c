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

inline int64_t last_of(const TokenRun& run) { return run.place + run.rows.size() - 1; }

// The keys that a query sees: with `causal` its own and those before it, and in a window only the
// last `window` of these.
struct Sight {
  bool causal = true;
  int64_t window = 0;  // 0: no window
};

// The most queries and keys of a block.
struct BlockSizes {
  int64_t queries = 256, keys = 512;
};

// The blocks in which a query of `queries` sees a key of `keys`, without the keys that no query of
// a block sees. Blocks of the same queries follow each other.
std::vector<AttentionBlock> attention_blocks(const std::vector<TokenRun>& queries, const std::vector<TokenRun>& keys,
                                             const Sight& sight, const BlockSizes& most = {});

// The scores of a block: those of some samples and some heads of queries.
struct AttentionPart {
  AttentionBlock block;
  Range samples, heads;
};

struct AttentionRules {
  // A tensor (samples, heads, queries, keys) of a part, for scores of the sizes and type of `like`;
  // undefined: none. It may have sizes of 1. Several threads call it at once.
  using OfPart = std::function<at::Tensor(const AttentionPart&, const at::Tensor& like)>;
  Sight sight = {};
  OfPart added = {};    // to the scores, such as a mask of documents
  OfPart dropped = {};  // factors of the probabilities: 0 or 1 / (1 - rate)
};

// Of (batch, kv, k, f) both, or their gradients. Rows may lie apart from each other.
struct KeysValues {
  at::Tensor keys, values;
};

// Attention whose keys come in several parts. The softmax over all of them is exact: each query
// keeps the largest score and the sum of exponentials of what it has seen so far (Milakov and
// Gimelshein, Online normalizer calculation for softmax, 2018). These are in fp32, or fp64 for
// fp64, whatever the heads are. Scores are never kept.
//
// Queries are (batch, q, heads, f); heads / kv heads of them, which follow each other, share a head
// of keys. Every query sees a key.
class AttentionByBlocks {
 public:
  virtual ~AttentionByBlocks() = default;

  // Forward: begin(), then attend() until every query has met every key once, then end().
  virtual void begin() = 0;
  virtual void attend(const std::vector<TokenRun>& queries, const std::vector<TokenRun>& keys,
                      const KeysValues& seen) = 0;
  struct Result {
    at::Tensor output;      // (batch, q, heads, f), of the type of the queries
    at::Tensor logarithms;  // one per query and head: of its sum of exponentials
  };
  virtual Result end() = 0;

  // Backward: begin_backward() with what end() gave, then the same calls of attend_backward(). It
  // adds their gradients to `to`, which has the sizes of `seen` and is in fp32, or fp64 for fp64.
  virtual void begin_backward(const Result& result, const at::Tensor& grad_output /* (batch, q, heads, f) */) = 0;
  virtual void attend_backward(const std::vector<TokenRun>& queries, const std::vector<TokenRun>& keys,
                               const KeysValues& seen, const KeysValues& to) = 0;
  virtual at::Tensor grad_queries() const = 0;  // (batch, q, heads, f), in fp32, or fp64
};

}  // namespace axonn
