#include "axonn/layers/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include "axonn/core/error.hpp"
#include "axonn/layers/dropout.hpp"
#include "layers/ops/attention_operation.hpp"
#include "layers/ops/heads_operation.hpp"

namespace axonn {
namespace {

using at::Tensor;

constexpr const char* kWhere = "layers.attention";

void check_heads(const Context& context, const AttentionHeads& heads, const AttentionOptions& options) {
  const int size = context.shape()[options.axis];
  for (const auto& [tensor, count, name] : {std::tuple(heads.queries, options.heads, "queries"),
                                            {heads.keys, options.keys(), "keys"},
                                            {heads.values, options.keys(), "values"}}) {
    const auto& like = heads.queries.sizes();
    AXONN_CHECK(tensor.dim() == 4 && tensor.size(0) == like[0] && tensor.size(1) == like[1] &&
                    tensor.size(2) * size == count && tensor.size(3) == like[3],
                kWhere, name, " must be (batch, sequence, ", count / size, " heads on this rank, features of a head), ",
                "with the batch, sequence and features of the queries, got sizes ", tensor.sizes());
  }
}

// Whether each of `queries` sees each of `keys`: query i is at the place of key first + i.
Tensor seen(int64_t queries, int64_t keys, int64_t first, int64_t window, const Tensor& like) {
  const Tensor before = at::ones({queries, keys}, like.options().dtype(at::kBool)).tril(first);
  return window > 0 ? before.triu(first - window + 1) : before;
}

// Blocks of queries, each with the keys of its windows.
Tensor attention_in_window(const Tensor& q, const Tensor& k, const Tensor& v, int64_t window) {
  constexpr int64_t kQueries = 512;
  std::vector<Tensor> outputs;
  for (int64_t begin = 0; begin < q.size(2); begin += kQueries) {
    const int64_t queries = std::min(kQueries, q.size(2) - begin), first = std::max<int64_t>(0, begin - window + 1),
                  keys = begin + queries - first;
    outputs.push_back(at::scaled_dot_product_attention(q.narrow(2, begin, queries), k.narrow(2, first, keys),
                                                       v.narrow(2, first, keys),
                                                       seen(queries, keys, begin - first, window, q)));
  }
  return outputs.size() == 1 ? outputs.front() : at::cat(outputs, 2);
}

// LibTorch's fused attention cannot drop by global position, so dropout takes this path.
Tensor attention_with_dropout(Context& context, const Tensor& q, const Tensor& k, const Tensor& v,
                              const AttentionOptions& options, const Tensor& added) {
  Tensor scores = at::matmul(q, k.transpose(-2, -1)) / std::sqrt(static_cast<double>(q.size(-1)));
  if (added.defined())
    scores = scores + added;
  else if (options.causal)
    scores = scores.masked_fill(seen(q.size(2), k.size(2), 0, options.window, q).logical_not(),
                                -std::numeric_limits<double>::infinity());
  const int64_t first_head = q.size(1) * context.at()[options.axis];
  const Tensor kept = dropout_attention(context, at::softmax(scores, -1), options.dropout, options.dropout_name,
                                        first_head, options.heads);
  return at::matmul(kept, v);
}

}  // namespace

int64_t attention_block(int64_t sequence, c10::Device device) {
  constexpr int64_t kShort = 256, kLongest = 1024;
  if (!device.is_cpu() || sequence > kLongest) return 0;
  return std::min<int64_t>(sequence, sequence <= kShort ? 64 : 128);
}

AttentionHeads split_heads(Context& context, const Value& qkv, const AttentionOptions& options,
                           const std::vector<int64_t>& first) {
  const int size = context.shape()[options.axis];
  const int64_t heads = options.heads, keys = options.keys(), all = heads + 2 * keys;
  AXONN_CHECK(heads > 0 && heads % size == 0, kWhere, "heads must divide by axis ", to_string(options.axis), ", got ",
              heads, " heads and ", to_string(options.axis), " = ", size);
  AXONN_CHECK(heads % keys == 0 && keys % size == 0, kWhere, "kv_heads must divide heads, and divide by axis ",
              to_string(options.axis), ", got ", keys, " of ", heads, " heads and ", to_string(options.axis), " = ",
              size);
  AXONN_CHECK(qkv.features % all == 0, kWhere, "features must divide by heads, got ", qkv.features / 3,
              " features and ", heads, " heads");
  const int64_t features = qkv.features / all;
  check_layout(qkv, qkv.features, Layout::over(options.axis, {heads * features, keys * features, keys * features}),
               kWhere);
  AXONN_CHECK(qkv.tensor.dim() >= 3, kWhere, "needs (batch, sequence, features), got sizes ", qkv.tensor.sizes());
  const auto parts =
      record(heads_operation({heads / size, keys / size, keys / size}, options.rotary, first), {qkv.tensor});
  return {.queries = parts[0], .keys = parts[1], .values = parts[2]};
}

at::Tensor document_mask(const Tensor& begins, const Tensor& like) {
  AXONN_CHECK(begins.dim() == 2 && begins.scalar_type() == at::kLong, kWhere,
              "begins must be (batch, sequence) of int64, got sizes ", begins.sizes());
  const int64_t sequence = begins.size(1);
  const Tensor keys = at::arange(sequence, begins.options());
  const Tensor hidden = keys.lt(begins.unsqueeze(-1)).logical_or_(keys.gt(keys.unsqueeze(-1)));
  return at::zeros({begins.size(0), 1, sequence, sequence}, like.options().requires_grad(false))
      .masked_fill_(hidden.unsqueeze(1), -std::numeric_limits<double>::infinity());
}

Value attention(Context& context, const AttentionHeads& heads, const AttentionOptions& options,
                const Tensor& documents) {
  const auto [queries, keys, values] = heads;
  check_heads(context, heads, options);
  AXONN_CHECK(options.window >= 0 && (options.causal || options.window == 0), kWhere,
              "a window is for causal attention and not negative, got ", options.window, "; choose causal = true");
  const int64_t batch = queries.size(0), sequence = queries.size(1), here = queries.size(2);
  const int64_t features = options.heads * queries.size(3), block = attention_block(sequence, queries.device());
  const int64_t window = options.window < sequence ? options.window : 0;
  AXONN_CHECK(!documents.defined() || (options.causal && documents.dim() == 4 && documents.size(0) == batch &&
                                       documents.size(2) == sequence && documents.size(3) == sequence),
              kWhere, "a mask of documents is for causal attention, with sizes (", batch, ", 1, ", sequence, ", ",
              sequence, "); pass what document_mask() returns");
  const Tensor added = documents.defined() && window > 0
                           ? documents.masked_fill(seen(sequence, sequence, 0, window, queries).logical_not(),
                                                   -std::numeric_limits<double>::infinity())
                           : documents;
  // Each head of keys, as often as heads of queries share it.
  const auto for_queries = [&](const Tensor& some) {
    return some.size(2) == here ? some : some.repeat_interleave(here / some.size(2), 2);
  };
  const Layout over_axis = Layout::over(options.axis);
  if (options.causal && options.dropout == 0 && block > 0 && queries.numel() > 0 && !added.defined()) {
    const bool wide = queries.element_size() == 2 && context.options().attention == AttentionProducts::fp32;
    const at::ScalarType products = wide ? at::kFloat : queries.scalar_type();
    return {record(attention_operation({.rows = block, .window = window, .products = products}),
                   {queries, keys, values})[0],
            features, over_axis};
  }
  // (batch, heads, sequence, features of a head)
  const Tensor q = queries.transpose(1, 2), k = for_queries(keys).transpose(1, 2),
               v = for_queries(values).transpose(1, 2);
  const Tensor mixed = options.dropout > 0 ? attention_with_dropout(context, q, k, v, options, added)
                       : added.defined()   ? at::scaled_dot_product_attention(q, k, v, added)
                       : window > 0        ? attention_in_window(q, k, v, window)
                                           : at::scaled_dot_product_attention(q, k, v, {}, 0.0, options.causal);
  return {mixed.transpose(1, 2).reshape({batch, sequence, here * queries.size(3)}), features, over_axis};
}

}  // namespace axonn
