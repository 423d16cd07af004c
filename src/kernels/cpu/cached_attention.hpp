#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace axonn {

// Attention of one new token per text to the keys and values that a cache holds, in few passes: as
// products of batches it takes several times as long to prepare as to compute.

// The keys that a text's new token sees.
struct SeenKeys {
  int64_t first;
  int64_t count;
};

// Whether cached_attention() takes them: on a CPU, in fp32 or bf16.
bool has_cached_attention(const at::Tensor& queries, const at::Tensor& keys);

// queries (texts, heads, f), keys and values (texts, key heads, length, f) with contiguous rows,
// and of each text which of them it sees -> (texts, heads, f). Heads of queries in a row share a
// head of keys. Products are summed in fp32, the softmax in fp64. No bit depends on the number of
// threads or on other texts.
at::Tensor cached_attention(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                            const std::vector<SeenKeys>& seen);

}  // namespace axonn
