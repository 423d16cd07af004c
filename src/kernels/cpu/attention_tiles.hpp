#pragma once

#include <memory>

#include "kernels/attention_by_blocks.hpp"

namespace axonn {

// AttentionByBlocks on a CPU, in tiles of scores that stay in the cache: a product, one or two
// passes over the rows, a product (Dao, FlashAttention-2, 2023). Backward computes the scores
// again. Heads of queries that share a head of keys are rows of one tile. Products are in fp32, or
// fp64 for fp64: 16-bit heads are rounded when they come and go, and not between. Each thread has
// memory for two tiles, which it keeps. Forward divides blocks of queries among threads, backward
// heads of keys. Equal bits on any number of threads. Past autograd.
std::unique_ptr<AttentionByBlocks> attention_tiles(const at::Tensor& queries, int64_t key_heads, AttentionRules rules);

}  // namespace axonn
