#include "layers/ops/attention/blocked_attention.hpp"

#include <cmath>
#include <limits>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>

#include "kernels/cpu/attention_tiles.hpp"
#include "layers/ops/attention/flash_attention.hpp"

namespace axonn {
namespace {

using at::Tensor;

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// The keys of a block that are hidden from each of its queries: (queries, keys); undefined: none.
Tensor hidden_in(const AttentionBlock& block, const Sight& sight, const Tensor& like) {
  const bool later = sight.causal && last_of(block.keys) > block.queries.place,
             earlier = sight.window > 0 && block.keys.place <= last_of(block.queries) - sight.window;
  if (!later && !earlier) return {};
  const auto tokens = [&](const TokenRun& run) {
    return at::arange(run.place, run.place + run.rows.size(), like.options().dtype(at::kLong));
  };
  const Tensor queries = tokens(block.queries).unsqueeze(1), keys = tokens(block.keys);
  const Tensor behind = keys.gt(queries);
  if (!earlier) return behind;
  const Tensor before = keys.le(queries - sight.window);
  return later ? behind.logical_or(before) : before;
}

Tensor heads_first(const Tensor& rows /* (batch, q, heads, f) */, at::ScalarType type) {
  return rows.transpose(1, 2).to(type);
}

}  // namespace

BlockedAttention::BlockedAttention(const Tensor& queries, int64_t key_heads, AttentionRules rules)
    : heads_(queries.size(2)),
      key_heads_(key_heads),
      type_(queries.scalar_type() == at::kDouble ? at::kDouble : at::kFloat),
      scale_(1 / std::sqrt(static_cast<double>(queries.size(3)))),
      rules_(std::move(rules)),
      queries_(queries.transpose(1, 2)) {}

// A query that has seen nothing so far has the greatest score -infinity, and sums of 0.
void BlockedAttention::begin() {
  const auto wide = queries_.options().dtype(type_);
  greatest_ = at::full({queries_.size(0), heads_, queries_.size(2), 1}, kHidden, wide);
  sums_ = at::zeros(greatest_.sizes(), wide);
  output_ = at::zeros(queries_.sizes(), wide);
}

Tensor BlockedAttention::grouped(const Tensor& by_head) const {
  return by_head.reshape({by_head.size(0), key_heads_, heads_ / key_heads_ * by_head.size(2), by_head.size(3)});
}

Tensor BlockedAttention::ungrouped(const Tensor& by_key_head) const {
  return by_key_head.reshape(
      {by_key_head.size(0), heads_, by_key_head.size(2) * key_heads_ / heads_, by_key_head.size(3)});
}

Tensor BlockedAttention::rows_of(const Tensor& by_head, const AttentionBlock& block) const {
  return by_head.narrow(2, block.queries.rows.begin, block.queries.rows.size());
}

Tensor BlockedAttention::of_block(const AttentionRules::OfPart& rule, const AttentionBlock& block,
                                  const Tensor& like) const {
  if (!rule) return {};
  return rule({.block = block, .samples = {0, queries_.size(0)}, .heads = {0, heads_}}, like);
}

// (batch, heads, r, n) of queries (batch, kv, g r, f) and keys (batch, kv, n, f).
Tensor BlockedAttention::scores_of(const Tensor& queries, const Tensor& keys, const AttentionBlock& block) const {
  Tensor scores = ungrouped(at::matmul(queries, keys.transpose(2, 3))).mul_(scale_);
  if (const Tensor hidden = hidden_in(block, rules_.sight, scores); hidden.defined())
    scores.masked_fill_(hidden, kHidden);
  if (const Tensor added = of_block(rules_.added, block, scores); added.defined()) scores.add_(added);
  return scores;
}

void BlockedAttention::attend(const std::vector<TokenRun>& queries, const std::vector<TokenRun>& keys,
                              const KeysValues& seen) {
  for (const AttentionBlock& block : attention_blocks(queries, keys, rules_.sight)) attend(block, seen);
}

void BlockedAttention::attend(const AttentionBlock& block, const KeysValues& seen) {
  const Range& rows = block.keys.rows;
  const auto some_of = [&](const Tensor& all) { return all.narrow(2, rows.begin, rows.size()).to(type_); };
  Tensor scores = scores_of(grouped(rows_of(queries_, block).to(type_)), some_of(seen.keys), block);
  const Tensor before = rows_of(greatest_, block), sums = rows_of(sums_, block), output = rows_of(output_, block);
  const Tensor greatest = at::maximum(before, scores.amax(-1, /*keepdim=*/true));
  const Tensor from = greatest.masked_fill(greatest.eq(kHidden), 0);
  const Tensor shrunk = (before - from).exp_();
  scores.sub_(from).exp_();
  sums.mul_(shrunk).add_(scores.sum(-1, /*keepdim=*/true));
  if (const Tensor factors = of_block(rules_.dropped, block, scores); factors.defined()) scores.mul_(factors);
  output.mul_(shrunk).add_(ungrouped(at::matmul(grouped(scores), some_of(seen.values))));
  before.copy_(greatest);
}

AttentionByBlocks::Result BlockedAttention::end() {
  const Tensor output = output_.div_(sums_).transpose(1, 2);
  return {.output = output.to(queries_.scalar_type()).contiguous(), .logarithms = sums_.log_().add_(greatest_)};
}

void BlockedAttention::begin_backward(const Result& result, const Tensor& grad_output) {
  grad_output_ = heads_first(grad_output, type_);
  logarithms_ = result.logarithms;
  dots_ = (grad_output_ * heads_first(result.output, type_)).sum(-1, /*keepdim=*/true);
  grad_queries_ = at::zeros(queries_.sizes(), queries_.options().dtype(type_));
}

void BlockedAttention::attend_backward(const std::vector<TokenRun>& queries, const std::vector<TokenRun>& keys,
                                       const KeysValues& seen, const KeysValues& to) {
  for (const AttentionBlock& block : attention_blocks(queries, keys, rules_.sight)) attend_backward(block, seen, to);
}

void BlockedAttention::attend_backward(const AttentionBlock& block, const KeysValues& seen, const KeysValues& to) {
  const Range& rows = block.keys.rows;
  const auto some_of = [&](const Tensor& all) { return all.narrow(2, rows.begin, rows.size()); };
  const Tensor queries = grouped(rows_of(queries_, block).to(type_)), keys = some_of(seen.keys).to(type_),
               values = some_of(seen.values).to(type_), grad = grouped(rows_of(grad_output_, block));
  const Tensor probabilities = scores_of(queries, keys, block).sub_(rows_of(logarithms_, block)).exp_();
  Tensor changes = ungrouped(at::matmul(grad, values.transpose(2, 3)));  // gradients: probabilities', then scores'
  Tensor kept = probabilities;
  if (const Tensor factors = of_block(rules_.dropped, block, probabilities); factors.defined()) {
    kept = probabilities * factors;
    changes.mul_(factors);
  }
  some_of(to.values).add_(at::matmul(grouped(kept).transpose(2, 3), grad));
  changes.sub_(rows_of(dots_, block)).mul_(probabilities).mul_(scale_);
  some_of(to.keys).add_(at::matmul(grouped(changes).transpose(2, 3), queries));
  rows_of(grad_queries_, block).add_(ungrouped(at::matmul(grouped(changes), keys)));
}

std::unique_ptr<AttentionByBlocks> attention_by_blocks(const Tensor& queries, int64_t key_heads, AttentionRules rules) {
  if (queries.is_cpu()) return attention_tiles(queries, key_heads, std::move(rules));
  if (flash_attends(queries, rules)) return std::make_unique<FlashAttention>(queries, key_heads, rules);
  return std::make_unique<BlockedAttention>(queries, key_heads, std::move(rules));
}

}  // namespace axonn
