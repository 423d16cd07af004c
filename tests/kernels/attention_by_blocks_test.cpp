// Blocks of queries and keys hold every pair that sees each other, and no key that nobody sees.
#include "kernels/attention_by_blocks.hpp"

#include <vector>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace axonn
