// Attention from a cache, token by token, is attention over the whole text.
#include "axonn/layers/blocks/key_value_cache.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "layers/layer_fixture.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

constexpr int64_t kTexts = 3, kLength = 11, kHeads = 6, kKeys = 2, kFeatures = 4;

AttentionHeads heads_of(int64_t tokens) {
  return {.queries = whole_tensor(1, {kTexts, tokens, kHeads, kFeatures}),
          .keys = whole_tensor(2, {kTexts, tokens, kKeys, kFeatures}),
          .values = whole_tensor(3, {kTexts, tokens, kKeys, kFeatures})};
}

AttentionHeads some(const AttentionHeads& heads, int64_t begin, int64_t tokens) {
  return {heads.queries.narrow(1, begin, tokens), heads.keys.narrow(1, begin, tokens),
          heads.values.narrow(1, begin, tokens)};
}

KeyValueCache cache() {
  return KeyValueCache(kTexts, kLength, kKeys, kFeatures, at::TensorOptions().dtype(at::kDouble));
}

TEST(KeyValueCache, GivesWhatAttentionOverTheWholeTextGives) {
  Context context = context_on({});
  const AttentionHeads all = heads_of(kLength);
  for (const int64_t window : {0, 1, 4, 20}) {
    const at::Tensor expected = attention(context, all, {.heads = kHeads, .kv_heads = kKeys, .window = window}).tensor;
    for (const int64_t prompt : {1, 5, 11}) {
      KeyValueCache kept = cache();
      std::vector<at::Tensor> got = {kept.attend(some(all, 0, prompt), {0, 0, 0}, window)};
      for (int64_t token = prompt; token < kLength; ++token)
        got.push_back(kept.attend(some(all, token, 1), {token, token, token}, window));
      expect_near(at::cat(got, 1), expected, "window " + std::to_string(window) + ", prompt " + std::to_string(prompt));
    }
  }
}

// The second text has two tokens fewer in its prompt: what was behind them is replaced.
TEST(KeyValueCache, HoldsTextsOfUnequalLengths) {
  Context context = context_on({});
  const AttentionHeads all = heads_of(kLength);
  const at::Tensor expected = attention(context, all, {.heads = kHeads, .kv_heads = kKeys}).tensor;
  KeyValueCache kept = cache();
  AttentionHeads prompt = some(all, 0, 5);
  for (at::Tensor* part : {&prompt.queries, &prompt.keys, &prompt.values}) {
    *part = part->clone();
    (*part)[1].narrow(0, 3, 2).fill_(1e3);
  }
  const at::Tensor first = kept.attend(prompt, {0, 0, 0}, 0);
  expect_near(first[1].narrow(0, 0, 3), expected[1].narrow(0, 0, 3), "a short prompt");
  for (int64_t step = 0; step < 4; ++step) {
    const auto next = [&](const at::Tensor& part) {
      return at::stack(
          {part[0].narrow(0, 5 + step, 1), part[1].narrow(0, 3 + step, 1), part[2].narrow(0, 5 + step, 1)});
    };
    const at::Tensor got =
        kept.attend({next(all.queries), next(all.keys), next(all.values)}, {5 + step, 3 + step, 5 + step}, 0);
    expect_near(got[0], expected[0].narrow(0, 5 + step, 1), "the first text");
    expect_near(got[1], expected[1].narrow(0, 3 + step, 1), "the short text");
  }
}

TEST(KeyValueCache, RefusesMoreThanItsLength) {
  KeyValueCache kept = cache();
  EXPECT_USER_ERROR(kept.attend(some(heads_of(kLength), 0, 2), {10, 10, 10}, 0), "has room for 11 tokens");
  EXPECT_USER_ERROR(kept.attend(some(heads_of(kLength), 0, 2), {1, 1}, 0), "the cache holds 3 texts");
}

}  // namespace
}  // namespace axonn
