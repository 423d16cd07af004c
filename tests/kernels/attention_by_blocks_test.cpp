// Blocks of queries and keys hold every pair that sees each other, and no key that nobody sees.
#include "kernels/attention_by_blocks.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "axonn/grid/query_rows.hpp"

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

// Scores that a rank computes, also those of a block that nobody sees: `context` ranks divide the
// tokens, and for each of them `ranks` the rows of queries. The keys of all parts come by.
int64_t scores_of(int64_t sequence, int context, int part, int ranks, int rank) {
  const std::vector<TokenRun> tokens = token_runs(sequence, context, part);
  std::vector<TokenRun> queries;
  for (const Range& rows : query_rows(sequence / context, ranks, rank))
    for (const TokenRun& run : runs_within(tokens, rows)) queries.push_back(run);
  int64_t scores = 0;
  for (int other = 0; other < context; ++other)
    for (const AttentionBlock& block : attention_blocks(queries, token_runs(sequence, context, other), {}))
      scores += block.queries.rows.size() * block.keys.rows.size();
  return scores;
}

TEST(AttentionBlocks, AreAnEqualShareOfScoresOnEveryRank) {
  const int64_t sequence = 24576;
  const auto whole = static_cast<double>(scores_of(sequence, 1, 0, 1, 0));
  EXPECT_NEAR(whole / static_cast<double>(sequence * (sequence + 1) / 2), 1, 0.02);  // half of a block per row
  for (const int context : {1, 2, 3, 4})
    for (const int ranks : {1, 2, 3, 4})
      for (int part = 0; part < context; ++part)
        for (int rank = 0; rank < ranks; ++rank) {
          const auto mine = static_cast<double>(scores_of(sequence, context, part, ranks, rank));
          EXPECT_NEAR(mine * context * ranks / whole, 1, 0.01)
              << "part " << part << " of " << context << ", rank " << rank << " of " << ranks;
        }
}

}  // namespace
}  // namespace axonn
