#include "axonn/layers/attention.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include "axonn/core/error.hpp"
#include "axonn/layers/my_tokens.hpp"
#include "layers/ops/attention/attention_operation.hpp"
#include "layers/ops/attention/divided_rows.hpp"
#include "layers/ops/attention/heads_operation.hpp"
#include "layers/ops/attention/library_attention.hpp"
#include "layers/ops/attention/ring_attention.hpp"
#include "layers/ops/attention/tiled_attention.hpp"

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

// `documents` has a row for each token of a sequence, or is for a ring.
AttentionTerms terms_of(const AttentionOptions& options, const Tensor& documents) {
  return {.sight = {.causal = options.causal, .window = options.window},
          .heads = options.heads,
          .axis = options.axis,
          .dropout = options.dropout,
          .dropout_name = options.dropout_name,
          .documents = documents,
          .masked = {{{0, documents.defined() ? documents.size(2) : 0}, 0}}};
}

// Whether LibTorch's fused kernel is the faster one on a CPU: of all keys, and of 16-bit heads with
// their causal mask, as its products of these are in bf16. Tiles took 1.02 and 1.09 times as long
// with bf16, and 0.93 and 0.92 times with fp32 (forward and backward of 2048 and 4096 tokens, one
// core of an AMD EPYC).
bool fused_is_faster(const AttentionHeads& heads, const AttentionOptions& options, const Tensor& documents) {
  if (options.dropout > 0 || options.window > 0 || documents.defined()) return false;
  return !options.causal || (heads.queries.element_size() == 2 && heads.queries.size(1) == heads.keys.size(1));
}

// Attention of some rows of queries to the keys from 0 on that they may see, and the values:
// (batch, rows, features on this rank). options.window is shorter than the sequence.
Tensor attended(Context& context, const AttentionHeads& heads, const AttentionOptions& options, const QueryRows& place,
                const Tensor& documents) {
  const auto& [queries, keys, values] = heads;
  const int64_t rows = queries.size(1), block = attention_block(place.sequence, queries.device());
  if (rows == 0) return queries.flatten(2);
  const bool on_cpu = queries.is_cpu() && queries.numel() > 0;
  if (on_cpu && options.causal && options.dropout == 0 && block > 0 && !documents.defined()) {
    const bool wide = queries.element_size() == 2 && context.options().attention == AttentionProducts::fp32;
    const at::ScalarType products = wide ? at::kFloat : queries.scalar_type();
    return record(attention_operation({.rows = block, .window = options.window, .products = products}),
                  {queries, keys, values})[0];
  }
  if (on_cpu && !fused_is_faster(heads, options, documents)) {
    return record(tiled_attention(context, terms_of(options, documents), place.first, place.sequence),
                  {queries, keys, values})[0];
  }
  return library_attention(context, {queries, keys, values}, terms_of(options, documents), place);
}

// Whether ranks along Z have other tokens of the same sequences.
bool divides_sequences(const Context& context, const AttentionOptions& options) {
  return options.divides_rows && context.options().forward.context > 1;
}

// Whether the ranks along `axis`, which have the same heads, divide the rows of queries among them.
bool divides_rows(Context& context, const AttentionHeads& heads, const AttentionOptions& options, Axis axis,
                  int64_t sequence) {
  const AttentionRows rows = context.options().forward.attention_rows;
  if (context.shape()[axis] == 1 || rows == AttentionRows::off || !options.divides_rows) return false;
  if (rows == AttentionRows::on) return true;
  const auto features = [](const Tensor& some) { return static_cast<double>(some.size(2) * some.size(3)); };
  const RowsTrade trade{
      .scores = options.causal ? mean_scores(sequence, options.window) : static_cast<double>(sequence),
      .queries = features(heads.queries),
      .keys_values = features(heads.keys) + features(heads.values),
      .element_bytes = static_cast<double>(heads.queries.element_size())};
  if (!heads.queries.is_cpu()) return trade.pays(kBalanceOfGpus);
  const AttentionBalance& balance = context.options().attention_balance;
  if (const double measured = axis == Axis::x ? balance.x : balance.y; measured > 0) return trade.pays(measured);
  return trade.pays(context.communicators()[axis].sends_messages() ? kBalanceOfMessages : kBalanceInMemory);
}

// Each rank along `axis` attends its rows. Those of the first part move while the second part is
// computed, which is the longer one under a causal mask.
Tensor attended_by_rows(Context& context, const AttentionHeads& heads, const AttentionOptions& options, Axis axis,
                        const Tensor& documents) {
  const DividedRows rows(context, axis, heads.queries.size(1));
  const std::vector<Tensor> taken = record(take_rows(rows, options.causal), {heads.queries, heads.keys, heads.values});
  const auto output = [&](size_t part) {
    const AttentionHeads mine{.queries = taken[3 * part], .keys = taken[3 * part + 1], .values = taken[3 * part + 2]};
    return attended(context, mine, options, {rows.mine()[part].begin, rows.sequence()}, documents);
  };
  const Tensor first = output(0);
  Pending first_comes = rows.gather(first.detach());
  const Tensor second = output(1);
  return record(join_rows(rows, {std::move(first_comes), rows.gather(second.detach())}), {first, second})[0];
}

Tensor attended_by_ring(Context& context, const AttentionHeads& heads, const AttentionOptions& options,
                        const Tensor& documents, std::optional<Axis> rows) {
  return ring_attention(context, {heads.queries, heads.keys, heads.values},
                        {.terms = terms_of(options, documents), .rows = rows});
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
  const int64_t tokens = c10::multiply_integers(qkv.tensor.sizes().slice(1, qkv.tensor.sizes().size() - 2));
  HeadsRotation rotation{.rotary = options.rotary, .first = first, .runs = {TokenRun{{0, tokens}, 0}}};
  if (divides_sequences(context, options)) rotation.runs = my_runs(context, tokens);
  const auto parts =
      record(heads_operation({heads / size, keys / size, keys / size}, std::move(rotation)), {qkv.tensor});
  return {.queries = parts[0], .keys = parts[1], .values = parts[2]};
}

at::Tensor document_mask(const Tensor& begins, const Tensor& like, const Tensor& places) {
  AXONN_CHECK(begins.dim() == 2 && begins.scalar_type() == at::kLong, kWhere,
              "begins must be (batch, sequence) of int64, got sizes ", begins.sizes());
  const int64_t sequence = begins.size(1);
  const Tensor keys = at::arange(sequence, begins.options()), queries = places.defined() ? places : keys,
               first = places.defined() ? begins.index_select(1, places) : begins;
  const Tensor hidden = keys.lt(first.unsqueeze(-1)).logical_or_(keys.gt(queries.unsqueeze(-1)));
  return at::zeros({begins.size(0), 1, queries.size(0), sequence}, like.options().requires_grad(false))
      .masked_fill_(hidden.unsqueeze(1), -std::numeric_limits<double>::infinity());
}

Value attention(Context& context, const AttentionHeads& heads, const AttentionOptions& options,
                const Tensor& documents) {
  check_heads(context, heads, options);
  AXONN_CHECK(options.window >= 0 && (options.causal || options.window == 0), kWhere,
              "a window is for causal attention and not negative, got ", options.window, "; choose causal = true");
  const int64_t batch = heads.queries.size(0), tokens = heads.queries.size(1);
  const bool ring = divides_sequences(context, options);
  const int64_t sequence = ring ? tokens * context.options().forward.context : tokens;
  AXONN_CHECK(!documents.defined() || (options.causal && documents.dim() == 4 && documents.size(0) == batch &&
                                       documents.size(2) == tokens && documents.size(3) == sequence),
              kWhere, "a mask of documents is for causal attention, with sizes (", batch, ", 1, ", tokens, ", ",
              sequence, "); pass what document_mask() returns");
  AttentionOptions within = options;
  if (within.window >= sequence) within.window = 0;
  const Axis other = other_tensor_axis(options.axis);
  const bool rows = divides_rows(context, heads, within, other, sequence);
  const Tensor output =
      ring   ? attended_by_ring(context, heads, within, documents, rows ? std::optional(other) : std::nullopt)
      : rows ? attended_by_rows(context, heads, within, other, documents)
             : attended(context, heads, within, {0, sequence}, documents);
  return {output, options.heads * heads.queries.size(3), Layout::over(options.axis)};
}

}  // namespace axonn
