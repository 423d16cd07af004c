// The rows of queries of all ranks are all rows once, and as many scores on every rank.
#include "axonn/grid/query_rows.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace axonn {
namespace {

// Scores of a rank's rows. Row i sees the rows i - window + 1 .. i.
int64_t scores_of(int64_t sequence, int ranks, int rank, int64_t window) {
  int64_t scores = 0;
  for (const Range& rows : query_rows(sequence, ranks, rank))
    for (int64_t row = rows.begin; row < rows.end; ++row) scores += std::min(row + 1, window);
  return scores;
}

TEST(QueryRows, AreAllRowsOnce) {
  for (const int64_t sequence : {0, 1, 3, 8, 12, 29, 1021})
    for (const int ranks : {1, 2, 3, 4, 16}) {
      std::vector<int> seen(static_cast<size_t>(sequence));
      for (int rank = 0; rank < ranks; ++rank)
        for (const Range& rows : query_rows(sequence, ranks, rank)) {
          EXPECT_LE(rows.size(), most_query_rows(sequence, ranks));
          for (int64_t row = rows.begin; row < rows.end; ++row) ++seen[static_cast<size_t>(row)];
        }
      EXPECT_EQ(std::ranges::count(seen, 1), sequence) << sequence << " rows on " << ranks << " ranks";
    }
}

TEST(QueryRows, HaveEqualCausalWorkWhereTheyDivide) {
  for (const int64_t sequence : {64, 512, 8192})
    for (const int ranks : {2, 4, 8})
      for (int rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(scores_of(sequence, ranks, rank, sequence) * ranks, sequence * (sequence + 1) / 2)
            << sequence << " rows on " << ranks << " ranks, rank " << rank;
}

TEST(QueryRows, HaveTheirShareOfCausalWorkWithinOnePercent) {
  for (const int64_t sequence : {1000, 1021, 4095})
    for (const int ranks : {2, 3, 4})
      for (int rank = 0; rank < ranks; ++rank) {
        const double share = static_cast<double>(sequence * (sequence + 1)) / 2 / ranks;
        EXPECT_NEAR(static_cast<double>(scores_of(sequence, ranks, rank, sequence)) / share, 1, 0.01)
            << sequence << " rows on " << ranks << " ranks, rank " << rank;
      }
}

// Only the first rows see less than their window, so the first rank has less to do.
TEST(QueryRows, OfAShortWindowHaveAlmostEqualWork) {
  const int64_t sequence = 4096, window = 128;
  for (const int ranks : {2, 4}) {
    const int64_t full = sequence * window / ranks;
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(full - scores_of(sequence, ranks, rank, window), rank == 0 ? window * (window - 1) / 2 : 0);
  }
}

}  // namespace
}  // namespace axonn
