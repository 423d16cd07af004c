#include "layers/ops/attention/library_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>

#include "axonn/layers/context.hpp"
#include "axonn/layers/dropout.hpp"
#include "layers/ops/attention/flash_attention.hpp"

namespace axonn {
namespace {

using at::Tensor;

// Whether each of `queries` sees each of `keys`: query i is at the place of key first + i.
Tensor seen(int64_t queries, int64_t keys, int64_t first, int64_t window, const Tensor& like) {
  const Tensor before = at::ones({queries, keys}, like.options().dtype(at::kBool)).tril(first);
  return window > 0 ? before.triu(first - window + 1) : before;
}

// Of document_mask(), what these queries see of these keys, within the window.
Tensor mask_of(const AttentionTerms& terms, const Tensor& like, int64_t keys, const QueryRows& place) {
  if (!terms.documents.defined()) return {};
  const int64_t queries = like.size(1), window = terms.sight.window;
  const Tensor mask = terms.documents.narrow(2, place.first, queries).narrow(3, 0, keys);
  return window == 0 ? mask
                     : mask.masked_fill(seen(queries, keys, place.first, window, like).logical_not(),
                                        -std::numeric_limits<double>::infinity());
}

// Blocks of queries, which are those of the last of the keys' places, each with the keys that it
// sees.
Tensor attention_in_blocks(const Tensor& q, const Tensor& k, const Tensor& v, int64_t window) {
  constexpr int64_t kQueries = 512;
  std::vector<Tensor> outputs;
  for (int64_t begin = 0; begin < q.size(2); begin += kQueries) {
    const int64_t queries = std::min(kQueries, q.size(2) - begin), place = k.size(2) - q.size(2) + begin,
                  first = window > 0 ? std::max<int64_t>(0, place - window + 1) : 0, keys = place + queries - first;
    outputs.push_back(at::scaled_dot_product_attention(q.narrow(2, begin, queries), k.narrow(2, first, keys),
                                                       v.narrow(2, first, keys),
                                                       seen(queries, keys, place - first, window, q)));
  }
  return outputs.size() == 1 ? outputs.front() : at::cat(outputs, 2);
}

// LibTorch's fused attention cannot drop by global position, so dropout takes this path.
Tensor attention_with_dropout(Context& context, const Tensor& q, const Tensor& k, const Tensor& v,
                              const AttentionTerms& terms, const QueryRows& place, const Tensor& added) {
  Tensor scores = at::matmul(q, k.transpose(-2, -1)) / std::sqrt(static_cast<double>(q.size(-1)));
  if (added.defined())
    scores = scores + added;
  else if (terms.sight.causal)
    scores = scores.masked_fill(seen(q.size(2), k.size(2), place.first, terms.sight.window, q).logical_not(),
                                -std::numeric_limits<double>::infinity());
  const Tensor kept = dropout_attention(context, at::softmax(scores, -1), terms.dropout, terms.dropout_name,
                                        {.first_head = q.size(1) * context.at()[terms.axis],
                                         .heads = terms.heads,
                                         .first_query = place.first,
                                         .sequence = place.sequence});
  return at::matmul(kept, v);
}

// By LibTorch's fused kernel, without dropout.
Tensor attention_by_fused_kernel(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionTerms& terms,
                                 const Tensor& added) {
  if (added.defined()) return at::scaled_dot_product_attention(q, k, v, added);
  const bool later = q.size(2) < k.size(2);  // the fused kernels' own causal mask begins both at 0
  if (later && terms.sight.causal && flash_attends(q.transpose(1, 2), {.sight = terms.sight}))
    return std::get<0>(at::_scaled_dot_product_flash_attention(q, k, v, 0, /*is_causal=*/true));  // ends both together
  if (terms.sight.causal && (terms.sight.window > 0 || later)) return attention_in_blocks(q, k, v, terms.sight.window);
  return at::scaled_dot_product_attention(q, k, v, {}, 0.0, terms.sight.causal);
}

}  // namespace

Tensor library_attention(Context& context, const std::array<Tensor, 3>& heads, const AttentionTerms& terms,
                         const QueryRows& place) {
  const auto& [queries, keys, values] = heads;
  const int64_t here = queries.size(2);
  const Tensor added = mask_of(terms, queries, keys.size(1), place);
  // (batch, heads, rows, features of a head): each head of keys, as often as queries share it
  const auto for_queries = [here](const Tensor& some) {
    return (some.size(2) == here ? some : some.repeat_interleave(here / some.size(2), 2)).transpose(1, 2);
  };
  const Tensor q = queries.transpose(1, 2), k = for_queries(keys), v = for_queries(values);
  const Tensor mixed = terms.dropout > 0 ? attention_with_dropout(context, q, k, v, terms, place, added)
                                         : attention_by_fused_kernel(q, k, v, terms, added);
  return mixed.transpose(1, 2).reshape({queries.size(0), queries.size(1), here * queries.size(3)});
}

}  // namespace axonn
