#include "layers/ops/attention/flash_attention.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/zeros.h>

#include "layers/operation.hpp"

namespace axonn {
namespace {

using at::Tensor;

// Rows of queries and of keys. The queries see all of the keys; if `square`, they are at the same
// places, and see those before their own.
struct Part {
  Range queries, keys;
  bool square;
};

// In blocks of any size, each a run of queries with those keys of a run that it sees.
std::vector<Part> parts_of(const std::vector<TokenRun>& queries, const std::vector<TokenRun>& keys,
                           const Sight& sight) {
  constexpr BlockSizes kAll{.queries = int64_t{1} << 40, .keys = int64_t{1} << 40};
  std::vector<Part> parts;
  const auto put = [&](const Range& some, const Range& others, bool square = false) {
    if (some.size() > 0 && others.size() > 0) parts.push_back({some, others, square});
  };
  for (const AttentionBlock& block : attention_blocks(queries, keys, sight, kAll)) {
    const auto& [some, others] = block;
    if (!sight.causal) {
      put(some.rows, others.rows);
      continue;
    }
    // Places of those queries whose own keys are among these: from `begin` to `end`.
    const int64_t last = some.place + some.rows.size(), begin = std::max(some.place, others.place),
                  end = std::max(begin, std::min(last, others.place + others.rows.size()));
    const auto query = [&](int64_t place) { return some.rows.begin + place - some.place; };
    const auto key = [&](int64_t place) { return std::min(others.rows.end, others.rows.begin + place - others.place); };
    put({query(begin), query(last)}, {others.rows.begin, key(begin)});
    put({query(begin), query(end)}, {key(begin), key(end)}, true);
    put({query(end), query(last)}, {key(begin), key(end)});
  }
  return parts;
}

Tensor some_of(const Tensor& by_head /* (batch, heads, rows, n) */, const Range& rows) {
  return by_head.narrow(2, rows.begin, rows.size());
}

// On CPUs, LibTorch has it under another name, by which the tests see the same numbers.
std::tuple<Tensor, Tensor> flash(const Tensor& queries, const Tensor& keys, const Tensor& values, bool square) {
  if (queries.is_cpu()) return at::_scaled_dot_product_flash_attention_for_cpu(queries, keys, values, 0, square);
  const auto all = at::_scaled_dot_product_flash_attention(queries, keys, values, 0, square);
  return {std::get<0>(all), std::get<1>(all)};
}

struct FlashResult {
  Tensor grad, output, logarithms;
};

std::tuple<Tensor, Tensor, Tensor> flash_backward(const FlashResult& of, const Tensor& queries, const Tensor& keys,
                                                  const Tensor& values, bool square) {
  if (queries.is_cpu())
    return at::_scaled_dot_product_flash_attention_for_cpu_backward(of.grad, queries, keys, values, of.output,
                                                                    of.logarithms, 0, square);
  const Tensor none = at::empty({}, queries.options().dtype(at::kLong));  // random numbers, and lengths in a batch
  return at::_scaled_dot_product_flash_attention_backward(of.grad, queries, keys, values, of.output, of.logarithms, {},
                                                          {}, queries.size(2), keys.size(2), 0, square, none, none);
}

}  // namespace

FlashAttention::FlashAttention(const Tensor& queries, int64_t key_heads, const AttentionRules& rules)
    : key_heads_(key_heads),
      group_(queries.size(2) / key_heads),
      sight_(rules.sight),
      queries_(queries.transpose(1, 2)) {}

Tensor FlashAttention::of_head_groups(const Tensor& by_key_head) const {
  return group_ == 1 ? by_key_head : by_key_head.repeat_interleave(group_, 1);
}

void FlashAttention::begin() {
  const auto wide = queries_.options().dtype(wide_type(queries_));
  output_ = at::zeros(queries_.sizes(), wide);
  logarithms_ = at::full({queries_.size(0), queries_.size(1), queries_.size(2), 1},
                         -std::numeric_limits<double>::infinity(), wide);
}

void FlashAttention::attend(const std::vector<TokenRun>& queries, const std::vector<TokenRun>& keys,
                            const KeysValues& seen) {
  for (const Part& part : parts_of(queries, keys, sight_)) {
    const auto of_keys = [&](const Tensor& all) { return of_head_groups(some_of(all, part.keys)); };
    const auto [output, sums] =
        flash(some_of(queries_, part.queries), of_keys(seen.keys), of_keys(seen.values), part.square);
    const Tensor before = some_of(logarithms_, part.queries), mine = sums.unsqueeze(-1),
                 both = at::logaddexp(before, mine);
    some_of(output_, part.queries).mul_((before - both).exp_()).add_(output * (mine - both).exp_());
    before.copy_(both);
  }
}

AttentionByBlocks::Result FlashAttention::end() {
  return {.output = output_.transpose(1, 2).to(queries_.scalar_type()).contiguous(), .logarithms = logarithms_};
}

void FlashAttention::begin_backward(const Result& result, const Tensor& grad_output) {
  grad_output_ = grad_output.transpose(1, 2);
  output_ = result.output.transpose(1, 2);
  logarithms_ = result.logarithms;
  grad_queries_ = at::zeros(queries_.sizes(), queries_.options().dtype(wide_type(queries_)));
}

// With outputs and sums of all keys, the gradients of a part are those that its keys give.
void FlashAttention::attend_backward(const std::vector<TokenRun>& queries, const std::vector<TokenRun>& keys,
                                     const KeysValues& seen, const KeysValues& to) {
  for (const Part& part : parts_of(queries, keys, sight_)) {
    const auto of_keys = [&](const Tensor& all) { return of_head_groups(some_of(all, part.keys)); };
    const FlashResult of{.grad = some_of(grad_output_, part.queries),
                         .output = some_of(output_, part.queries),
                         .logarithms = some_of(logarithms_, part.queries).squeeze(-1).contiguous()};
    const auto [grad_queries, grad_keys, grad_values] =
        flash_backward(of, some_of(queries_, part.queries), of_keys(seen.keys), of_keys(seen.values), part.square);
    some_of(grad_queries_, part.queries).add_(grad_queries);
    const auto add = [&](const Tensor& all, const Tensor& grad /* (batch, heads, keys, f) */) {
      const Tensor by_group = grad.unflatten(1, {key_heads_, group_});
      some_of(all, part.keys).add_(by_group.sum(2, /*keepdim=*/false, all.scalar_type()));
    };
    add(to.keys, grad_keys);
    add(to.values, grad_values);
  }
}

bool flash_attends(const Tensor& queries, const AttentionRules& rules) {
  if (!queries.is_cuda() || queries.element_size() != 2 || queries.numel() == 0) return false;
  if (rules.sight.window > 0 || rules.added || rules.dropped || queries.size(3) % 8 != 0) return false;
  if (!at::globalContext().userEnabledFlashSDP()) return false;
  const Tensor heads = queries.transpose(1, 2);
  const auto choice = static_cast<at::SDPBackend>(at::_fused_sdp_choice(heads, heads, heads, {}, 0, true));
  return choice == at::SDPBackend::flash_attention || choice == at::SDPBackend::cudnn_attention;
}

}  // namespace axonn
