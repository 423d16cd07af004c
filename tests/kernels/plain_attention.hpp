#pragma once

// Attention of all scores at once in fp64, and the same by AttentionByBlocks.
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "kernels/attention_by_blocks.hpp"

namespace axonn::test {

// (batch, tokens, heads, features), and the gradient of the output.
struct HeadTensors {
  at::Tensor queries, keys, values, grad;
};

struct HeadSizes {
  int64_t queries, keys, heads = 2, key_heads = 2, features = 8, batch = 2;
};

inline HeadTensors random_heads(const HeadSizes& sizes, at::ScalarType type = at::kDouble) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{7});
  const auto random = [&](int64_t tokens, int64_t count) {
    return at::randn({sizes.batch, tokens, count, sizes.features}, generator, at::TensorOptions().dtype(at::kDouble))
        .to(type);
  };
  return {random(sizes.queries, sizes.heads), random(sizes.keys, sizes.key_heads), random(sizes.keys, sizes.key_heads),
          random(sizes.queries, sizes.heads)};
}

// Of all pairs of queries, which are tokens from `first` on, and keys.
struct PlainRules {
  Sight sight = {};
  int64_t first = 0;
  at::Tensor added = {}, factors = {};  // (batch or 1, heads or 1, queries, keys)
};

// Output and gradients of queries, keys and values.
using Results = std::vector<at::Tensor>;

inline Results plain_attention(const HeadTensors& heads, const PlainRules& rules) {
  const int64_t group = heads.queries.size(2) / heads.keys.size(2);
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& each : {heads.queries, heads.keys, heads.values})
    leaves.push_back(each.to(at::kDouble).clone().requires_grad_());
  const auto by_head = [&](size_t i, int64_t times) { return leaves[i].repeat_interleave(times, 2).transpose(1, 2); };
  at::Tensor scores = at::matmul(by_head(0, 1), by_head(1, group).transpose(2, 3)) /
                      std::sqrt(static_cast<double>(heads.queries.size(3)));
  const at::Tensor behind = at::arange(heads.keys.size(1), at::kLong).unsqueeze(0) -
                            (at::arange(heads.queries.size(1), at::kLong) + rules.first).unsqueeze(1);
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  if (rules.sight.causal) scores = scores.masked_fill(behind.gt(0), kHidden);
  if (rules.sight.window > 0) scores = scores.masked_fill(behind.le(-rules.sight.window), kHidden);
  if (rules.added.defined()) scores = scores + rules.added;
  at::Tensor probabilities = at::softmax(scores, -1);
  if (rules.factors.defined()) probabilities = probabilities * rules.factors;
  const at::Tensor output = at::matmul(probabilities, by_head(2, group)).transpose(1, 2);
  output.backward(heads.grad.to(at::kDouble));
  return {output.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
}

using MakeAttention = std::function<std::unique_ptr<AttentionByBlocks>(const at::Tensor&, int64_t, AttentionRules)>;

// The same by blocks. Queries lie in two runs, as if in a ring, and keys come in two parts, the
// later ones first.
inline Results attention_in_parts(const MakeAttention& make, const HeadTensors& heads, const PlainRules& rules) {
  const at::NoGradGuard no_grad;
  const auto of_part = [](const at::Tensor& whole) -> AttentionRules::OfPart {
    if (!whole.defined()) return {};
    return [whole](const AttentionPart& part, const at::Tensor&) {
      const auto& [queries, keys] = part.block;
      const auto some = [](const at::Tensor& all, int64_t dim, const Range& range) {
        return all.size(dim) == 1 ? all : all.narrow(dim, range.begin, range.size());
      };
      return some(some(whole, 0, part.samples), 1, part.heads)
          .narrow(2, queries.rows.begin, queries.rows.size())
          .narrow(3, keys.place, keys.rows.size());
    };
  };
  const AttentionRules how{.sight = rules.sight, .added = of_part(rules.added), .dropped = of_part(rules.factors)};
  const int64_t count = heads.queries.size(1), keys = heads.keys.size(1), half = count / 2;
  const std::vector<TokenRun> runs = {{{0, half}, rules.first}, {{half, count}, rules.first + half}},
                              early = {{{0, keys / 2}, 0}}, late = {{{keys / 2, keys}, keys / 2}};
  const KeysValues seen{heads.keys.transpose(1, 2), heads.values.transpose(1, 2)};
  const auto forward = make(heads.queries, heads.keys.size(2), how);
  forward->begin();
  for (const auto& part : {late, early}) forward->attend(runs, part, seen);
  const AttentionByBlocks::Result result = forward->end();
  EXPECT_EQ(result.output.scalar_type(), heads.queries.scalar_type());
  const auto backward = make(heads.queries, heads.keys.size(2), how);
  backward->begin_backward(result, heads.grad);
  const auto wide = heads.keys.options().dtype(heads.keys.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  const KeysValues to{at::zeros(seen.keys.sizes(), wide), at::zeros(seen.keys.sizes(), wide)};
  for (const auto& part : {late, early}) backward->attend_backward(runs, part, seen, to);
  return {result.output, backward->grad_queries(), to.keys.transpose(1, 2), to.values.transpose(1, 2)};
}

// The largest difference of one of the results, whose numbers are of the order of 1.
inline double distance(const at::Tensor& got, const at::Tensor& expected) {
  EXPECT_EQ(got.sizes(), expected.sizes());
  return (got.to(at::kDouble) - expected).abs().max().item<double>();
}

inline void expect_plain(const MakeAttention& make, const HeadTensors& heads, const PlainRules& rules, double tolerance,
                         const std::string& what) {
  const Results expected = plain_attention(heads, rules), got = attention_in_parts(make, heads, rules);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(distance(got[i], expected[i]), tolerance) << what << ", result " << i;
}

// 0 within documents of so many tokens, minus infinity elsewhere: (1, 1, queries, keys).
inline at::Tensor documents_mask(const HeadSizes& sizes, int64_t first, int64_t tokens) {
  const auto document = [&](int64_t from, int64_t count) {
    return at::arange(from, from + count, at::kLong).div(tokens, "floor");
  };
  const at::Tensor other = document(first, sizes.queries).unsqueeze(1).ne(document(0, sizes.keys).unsqueeze(0));
  return at::zeros({1, 1, sizes.queries, sizes.keys}, at::kDouble)
      .masked_fill(other, -std::numeric_limits<double>::infinity());
}

// 0 or 1.5, other ones in each sample and head.
inline at::Tensor dropout_factors(const HeadSizes& sizes) {
  const std::vector<int64_t> all = {sizes.batch, sizes.heads, sizes.queries, sizes.keys};
  return (at::arange(c10::multiply_integers(all), at::kLong).mul(7).remainder(10).ge(3).to(at::kDouble) * 1.5)
      .view(all);
}

}  // namespace axonn::test
