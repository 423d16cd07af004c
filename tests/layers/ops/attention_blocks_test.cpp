// Keys that come in blocks, in any order, give the attention of all of them at once.
#include "layers/ops/attention_blocks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>
#include <torch/types.h>

namespace axonn {
namespace {

// Pairs of queries and keys of the blocks that see each other, each once.
int64_t seen_by(const std::vector<AttentionBlock>& blocks, const Sight& sight, int64_t sequence) {
  std::vector<int> pairs(static_cast<size_t>(sequence * sequence));
  int64_t seen = 0;
  for (const AttentionBlock& block : blocks) {
    EXPECT_LE(block.queries.rows.size(), 256);
    EXPECT_LE(block.keys.rows.size(), 512);
    for (int64_t query = block.queries.place; query < block.queries.place + block.queries.rows.size(); ++query)
      for (int64_t key = block.keys.place; key < block.keys.place + block.keys.rows.size(); ++key) {
        if ((sight.causal && key > query) || (sight.window > 0 && key <= query - sight.window)) continue;
        EXPECT_EQ(pairs[static_cast<size_t>(query * sequence + key)]++, 0);
        ++seen;
      }
  }
  return seen;
}

TEST(AttentionBlocks, HaveEveryPairThatSeesEachOtherOnce) {
  const int64_t sequence = 1400;
  const std::vector<TokenRun> some = {{{0, 300}, 100}, {{300, 500}, 1200}}, all = {{{0, sequence}, 0}};
  EXPECT_EQ(seen_by(attention_blocks(all, all, {}), {}, sequence), sequence * (sequence + 1) / 2);
  const Sight everything = {.causal = false}, window = {.window = 7};
  EXPECT_EQ(seen_by(attention_blocks(some, all, everything), everything, sequence), 500 * sequence);
  EXPECT_EQ(seen_by(attention_blocks(some, all, window), window, sequence), 500 * 7);
  // 300 queries of the first run see their own, and 200 of the second one see both.
  EXPECT_EQ(seen_by(attention_blocks(some, some, {}), {}, sequence), 300 * 301 / 2 + 200 * 300 + 200 * 201 / 2);
}

// A block holds no keys that none of its queries sees, so keys of later tokens have none.
TEST(AttentionBlocks, AreNoneOfKeysThatNobodySees) {
  const std::vector<TokenRun> early = {{{0, 10}, 0}}, late = {{{0, 10}, 50}};
  EXPECT_TRUE(attention_blocks(early, late, {}).empty());
  EXPECT_EQ(attention_blocks(late, early, {}).size(), 1u);
  EXPECT_TRUE(attention_blocks(late, early, {.window = 41}).empty());
  const std::vector<AttentionBlock> seen = attention_blocks(late, early, {.window = 44});
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].keys, (TokenRun{{7, 10}, 7}));
  EXPECT_TRUE(attention_blocks({}, early, {}).empty());
}

// (batch, tokens, heads, features) and its gradient.
struct Tensors {
  at::Tensor queries, keys, values, grad;
};

Tensors tensors_of(int64_t tokens, int64_t heads, int64_t key_heads, at::ScalarType type) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{7});
  const auto random = [&](int64_t count) {
    return at::randn({2, tokens, count, 3}, generator, at::TensorOptions().dtype(at::kDouble)).to(type);
  };
  return {random(heads), random(key_heads), random(key_heads), random(heads)};
}

// Hidden scores of all pairs, and factors of probabilities: (batch, heads, tokens, tokens).
struct Rules {
  Sight sight;
  at::Tensor added, factors;
};

// Output and gradients of queries, keys and values, by LibTorch's operations.
std::vector<at::Tensor> expected_of(const Tensors& tensors, const Rules& rules) {
  const int64_t tokens = tensors.queries.size(1), group = tensors.queries.size(2) / tensors.keys.size(2);
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& each : {tensors.queries, tensors.keys, tensors.values})
    leaves.push_back(each.to(at::kDouble).clone().requires_grad_());
  const auto by_head = [&](size_t i, int64_t times) { return leaves[i].repeat_interleave(times, 2).transpose(1, 2); };
  at::Tensor scores = at::matmul(by_head(0, 1), by_head(1, group).transpose(2, 3)) / std::sqrt(3.0);
  at::Tensor hidden = at::zeros({tokens, tokens}, at::kBool);
  if (rules.sight.causal) hidden = at::ones({tokens, tokens}, at::kBool).triu(1);
  if (rules.sight.window > 0)
    hidden = hidden.logical_or(at::ones({tokens, tokens}, at::kBool).tril(-rules.sight.window));
  scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  if (rules.added.defined()) scores = scores + rules.added;
  at::Tensor probabilities = at::softmax(scores, -1);
  if (rules.factors.defined()) probabilities = probabilities * rules.factors;
  const at::Tensor output = at::matmul(probabilities, by_head(2, group)).transpose(1, 2);
  output.backward(tensors.grad.to(at::kDouble));
  return {output.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
}

// The same of blocks, those of the last keys first.
std::vector<at::Tensor> got_of(const Tensors& tensors, const Rules& rules) {
  const at::NoGradGuard no_grad;
  const int64_t tokens = tensors.queries.size(1);
  const std::vector<TokenRun> all = {{{0, tokens}, 0}};
  std::vector<AttentionBlock> blocks = attention_blocks(all, all, rules.sight);
  std::ranges::reverse(blocks);
  const auto of_block = [](const at::Tensor& whole) -> BlockedAttention::OfBlock {
    if (!whole.defined()) return {};
    return [whole](const AttentionBlock& block, const at::Tensor&) {
      return whole.narrow(2, block.queries.place, block.queries.rows.size())
          .narrow(3, block.keys.place, block.keys.rows.size());
    };
  };
  const BlockedAttention::Options options{
      .sight = rules.sight, .added = of_block(rules.added), .dropped = of_block(rules.factors)};
  const at::Tensor both = at::stack({tensors.keys.transpose(1, 2), tensors.values.transpose(1, 2)}).contiguous();
  BlockedAttention attention(tensors.queries, tensors.keys.size(2), options);
  attention.begin();
  for (const AttentionBlock& block : blocks) attention.attend(block, both);
  const BlockedAttention::Result result = attention.end();
  BlockedAttention backward(tensors.queries, tensors.keys.size(2), options);
  backward.begin_backward(result, tensors.grad);
  const at::Tensor to = at::zeros(both.sizes(), both.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
  for (const AttentionBlock& block : blocks) backward.attend_backward(block, both, to);
  return {result.output, backward.grad_queries().transpose(1, 2), to[0].transpose(1, 2), to[1].transpose(1, 2)};
}

void expect_equal(const Tensors& tensors, const Rules& rules, double tolerance, const char* what) {
  const std::vector<at::Tensor> expected = expected_of(tensors, rules), got = got_of(tensors, rules);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(got[i].sizes(), expected[i].sizes()) << what;
    const double scale = expected[i].abs().max().item<double>();
    EXPECT_LE((got[i].to(at::kDouble) - expected[i]).abs().max().item<double>(), tolerance * scale)
        << what << ", result " << i;
  }
}

TEST(BlockedAttention, IsThatOfAllKeysAtOnce) {
  const Tensors long_ones = tensors_of(600, 2, 1, at::kDouble), grouped = tensors_of(20, 6, 2, at::kDouble);
  expect_equal(long_ones, {.sight = {}, .added = {}, .factors = {}}, 1e-12, "causal");
  expect_equal(long_ones, {.sight = {.causal = false}, .added = {}, .factors = {}}, 1e-12, "all keys");
  expect_equal(long_ones, {.sight = {.window = 270}, .added = {}, .factors = {}}, 1e-12, "a window");
  expect_equal(grouped, {.sight = {.window = 4}, .added = {}, .factors = {}}, 1e-12, "a short window");
}

// The second half sees nothing of the first, whose block comes last.
TEST(BlockedAttention, AddsMasksAndDropsProbabilities) {
  const Tensors tensors = tensors_of(20, 6, 2, at::kDouble);
  const at::Tensor documents = at::zeros({2, 1, 20, 20}, at::kDouble);
  documents.narrow(2, 10, 10).narrow(3, 0, 10).fill_(-std::numeric_limits<double>::infinity());
  expect_equal(tensors, {.sight = {}, .added = documents, .factors = {}}, 1e-12, "documents");
  const at::Tensor factors = at::arange(2 * 6 * 20 * 20, at::kDouble).remainder(3).ne(0).to(at::kDouble) * 1.5;
  expect_equal(tensors, {.sight = {}, .added = documents, .factors = factors.view({2, 6, 20, 20})}, 1e-12, "dropout");
}

TEST(BlockedAttention, OfNarrowHeadsHasSumsInFp32) {
  expect_equal(tensors_of(600, 2, 1, at::kBFloat16), {.sight = {}, .added = {}, .factors = {}}, 2e-2, "bf16");
  expect_equal(tensors_of(600, 2, 1, at::kFloat), {.sight = {}, .added = {}, .factors = {}}, 1e-5, "fp32");
}

}  // namespace
}  // namespace axonn
