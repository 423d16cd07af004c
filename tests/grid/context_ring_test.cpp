// Ranks that divide sequences are neighbours along Z; together they have every token once, and each
// has as many scores as the others.
#include "axonn/grid/context_ring.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "axonn/grid/row_share.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

TEST(ContextRing, GoesRoundNeighboursAlongZ) {
  const GridShape shape = {1, 2, 4, 2};
  const ContextRing second = context_ring(shape, {.y = 1, .z = 2, .data = 1}, 2);
  EXPECT_EQ(second.first, 2);
  EXPECT_EQ(second.mine, 0);
  EXPECT_EQ(second.next(), 3);
  EXPECT_EQ(second.previous(), 3);
  const ContextRing whole = context_ring(shape, {.z = 3}, 4);
  EXPECT_EQ(whole.next(), 0);
  EXPECT_EQ(whole.previous(), 2);
  EXPECT_EQ(context_ring(shape, {.z = 3}, 1).next(), 3);
}

// Every rank receives what the one before it sends.
TEST(ContextRing, IsOneRoundOfAllItsRanks) {
  for (const int context : {1, 2, 3, 4, 6, 12})
    for (int z = 0; z < 12; ++z) {
      const GridShape shape = {1, 1, 12, 1};
      int at = z, steps = 0;
      do {
        const ContextRing ring = context_ring(shape, {.z = at}, context);
        EXPECT_EQ(context_ring(shape, {.z = ring.next()}, context).previous(), at);
        at = ring.next();
        ++steps;
      } while (at != z);
      EXPECT_EQ(steps, context);
    }
}

TEST(ContextRing, HasTheSameRowsOnAllItsRanks) {
  const GridShape shape = {2, 1, 4, 3};
  EXPECT_EQ(row_groups(shape), 12);
  EXPECT_EQ(row_groups(shape, 2), 6);
  std::vector<int> seen(6);
  for (int z = 0; z < 4; ++z)
    for (int data = 0; data < 3; ++data) {
      const RowShare share = row_share(shape, {.z = z, .data = data}, 2);
      EXPECT_EQ(share.groups, 6);
      EXPECT_EQ(share.mine, 2 * data + z / 2);
      ++seen[static_cast<size_t>(share.mine)];
    }
  EXPECT_EQ(std::ranges::count(seen, 2), 6);
}

TEST(TokenRuns, AreAllTokensOnce) {
  for (const int ranks : {1, 2, 3, 4})
    for (const int64_t part : {1, 2, 5}) {
      const int64_t sequence = 2 * ranks * part;
      std::vector<int> seen(static_cast<size_t>(sequence));
      for (int rank = 0; rank < ranks; ++rank) {
        int64_t rows = 0, scores = 0;
        for (const TokenRun& run : token_runs(sequence, ranks, rank)) {
          EXPECT_EQ(run.rows.begin, rows);
          rows = run.rows.end;
          for (int64_t token = run.place; token < run.place + run.rows.size(); ++token) {
            ++seen[static_cast<size_t>(token)];
            scores += token + 1;
          }
        }
        EXPECT_EQ(rows * ranks, sequence);
        EXPECT_EQ(scores * ranks, sequence * (sequence + 1) / 2);
      }
      EXPECT_EQ(std::ranges::count(seen, 1), sequence);
    }
}

TEST(TokenRuns, AreCutByRows) {
  const std::vector<TokenRun> runs = {{{0, 3}, 6}, {{3, 6}, 15}};
  EXPECT_EQ(runs_within(runs, {0, 6}), runs);
  EXPECT_EQ(runs_within(runs, {1, 3}), (std::vector<TokenRun>{{{0, 2}, 7}}));
  EXPECT_EQ(runs_within(runs, {2, 5}, 4), (std::vector<TokenRun>{{{4, 5}, 8}, {{5, 7}, 15}}));
  EXPECT_TRUE(runs_within(runs, {3, 3}).empty());
}

TEST(Context, IsRefusedWhereItDoesNotDivide) {
  EXPECT_USER_ERROR(check_context({1, 1, 12, 1}, 5), "it may be 1, 2, 3, 4, 6, 12");
  EXPECT_USER_ERROR(check_context({2, 2, 1, 4}, 2), "context must divide z");
  EXPECT_USER_ERROR(check_context({1, 1, 2, 1}, 0), "got context = 0 and z = 2");
  EXPECT_USER_ERROR(check_sequence(100, 4), "next ones that do: 96 and 104");
  EXPECT_USER_ERROR(check_sequence(3, 2), "got 3; next ones that do: 4");
  check_context({1, 1, 12, 1}, 6);
  check_sequence(96, 4);
  check_sequence(101, 1);
}

}  // namespace
}  // namespace axonn
