// Attention in tiles is that of all scores at once, whatever is hidden, dropped or shared.
#include "kernels/cpu/attention_tiles.hpp"

#include <array>
#include <string>

#include <ATen/Parallel.h>

#include "kernels/plain_attention.hpp"

namespace axonn {
namespace {

using namespace test;

constexpr std::array<int64_t, 6> kLengths = {1, 7, 64, 65, 300, 1100};

void expect_exact(const HeadSizes& sizes, const PlainRules& rules, const std::string& what) {
  expect_plain(attention_tiles, random_heads(sizes), rules, 1e-12, what);
}

TEST(AttentionTiles, AreAttentionOfAnyLength) {
  for (const int64_t tokens : kLengths) {
    const std::string what = std::to_string(tokens) + " tokens";
    expect_exact({tokens, tokens}, {}, what);
    expect_exact({tokens, tokens}, {.sight = {.causal = false}}, what + ", all keys");
  }
}

TEST(AttentionTiles, SeeNoMoreThanAWindow) {
  for (const int64_t tokens : {65, 300, 1100})
    for (const int64_t window : {1, 7, 64, 129, 600})
      expect_exact({tokens, tokens}, {.sight = {.window = window}},
                   std::to_string(tokens) + " tokens, window " + std::to_string(window));
}

TEST(AttentionTiles, ShareHeadsOfKeys) {
  for (const int64_t key_heads : {1, 2, 3})
    for (const int64_t tokens : {7, 300})
      expect_exact({tokens, tokens, 6, key_heads, 5}, {.sight = {.window = 40}},
                   std::to_string(key_heads) + " heads of keys, " + std::to_string(tokens) + " tokens");
  expect_exact({20, 20, 40, 1, 3}, {}, "more heads than rows of a tile by a block of queries");
}

TEST(AttentionTiles, BeginInTheMiddle) {
  for (const int64_t first : {1, 64, 200, 700}) {
    const HeadSizes sizes{.queries = 150, .keys = first + 150, .heads = 4, .key_heads = 2};
    const std::string what = "from " + std::to_string(first);
    expect_exact(sizes, {.first = first}, what);
    expect_exact(sizes, {.sight = {.window = 90}, .first = first}, what + " in a window");
  }
}

TEST(AttentionTiles, StayInDocumentsAndDropProbabilities) {
  for (const int64_t tokens : kLengths) {
    const HeadSizes sizes{.queries = tokens, .keys = tokens + 5, .heads = 4, .key_heads = 2};
    const at::Tensor documents = documents_mask(sizes, 5, 23), factors = dropout_factors(sizes);
    const std::string what = std::to_string(tokens) + " tokens, ";
    expect_exact(sizes, {.first = 5, .added = documents}, what + "documents");
    expect_exact(sizes, {.first = 5, .factors = factors}, what + "dropout");
    expect_exact(sizes, {.sight = {.window = 9}, .first = 5, .added = documents, .factors = factors}, what + "all");
    expect_exact(sizes, {.sight = {.causal = false}, .factors = factors}, what + "dropout of all keys");
  }
}

// LibTorch's own kernel in the type of the heads.
Results attention_of_libtorch(const HeadTensors& heads) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& each : {heads.queries, heads.keys, heads.values})
    leaves.push_back(each.clone().requires_grad_());
  const auto by_head = [&](size_t i) { return leaves[i].transpose(1, 2); };
  const at::Tensor output =
      at::scaled_dot_product_attention(by_head(0), by_head(1), by_head(2), {}, 0.0, /*is_causal=*/true).transpose(1, 2);
  output.backward(heads.grad);
  return {output.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
}

TEST(AttentionTiles, RoundNoMoreThanTwiceAsMuchAsLibTorch) {
  for (const auto& [type, rounding] : {std::pair{at::kFloat, 1e-6}, {at::kBFloat16, 1e-3}})
    for (const int64_t tokens : kLengths) {
      const HeadTensors heads = random_heads({tokens, tokens, 2, 2, 64}, type);
      const Results expected = plain_attention(heads, {}), theirs = attention_of_libtorch(heads),
                    got = attention_in_parts(attention_tiles, heads, {});
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_LE(distance(got[i].to(type), expected[i]), 2 * distance(theirs[i], expected[i]) + rounding)
            << c10::toString(type) << ", " << tokens << " tokens, result " << i;
    }
}

TEST(AttentionTiles, HaveTheSameBitsOnAnyNumberOfThreads) {
  const int threads = at::get_num_threads();
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16})
    for (const HeadSizes& sizes : {HeadSizes{300, 300, 6, 3, 16}, {1100, 1100, 1, 1, 64, 1}, {60, 60, 2, 1, 64, 1}}) {
      const HeadTensors heads = random_heads(sizes, type);
      const auto on = [&](int count) {
        at::set_num_threads(count);
        return attention_in_parts(attention_tiles, heads, {.factors = dropout_factors(sizes)});
      };
      const Results one = on(1);
      for (const int count : {2, 3}) {
        const Results several = on(count);
        for (size_t i = 0; i < one.size(); ++i)
          EXPECT_TRUE(one[i].equal(several[i])) << c10::toString(type) << ", " << count << " threads, result " << i;
      }
    }
  at::set_num_threads(threads);
}

TEST(AttentionTiles, OfNothingAreEmpty) {
  for (const HeadSizes& sizes : {HeadSizes{0, 0}, {0, 4}, {4, 4, 0, 0}}) {
    const Results got = attention_in_parts(attention_tiles, random_heads(sizes), {});
    EXPECT_EQ(got[0].numel(), 0);
    EXPECT_EQ(got[2].sizes(), (std::vector<int64_t>{2, sizes.keys, sizes.key_heads, sizes.features}));
  }
}

}  // namespace
}  // namespace axonn
