#pragma once

#include <memory>

#include "layers/operation.hpp"

namespace axonn {

// Causal attention on a CPU of queries that are those of the last of the keys' places, by
// LibTorch's fused kernel and without a mask: queries (batch, heads, q, f), keys and values (batch,
// heads, k, f) with 0 < q < k -> (batch, heads, q, f). The kernel attends to the k - q keys before
// them, and to the queries' own; the two softmaxes become one by their sums (Milakov and
// Gimelshein, Online normalizer calculation for softmax, 2018). Nothing of q x k elements is kept.
std::unique_ptr<TensorOperation> later_queries();

}  // namespace axonn
