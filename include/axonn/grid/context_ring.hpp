#pragma once

#include <cstdint>
#include <vector>

#include "axonn/grid/grid.hpp"
#include "axonn/grid/shard_spec.hpp"

namespace axonn {

// Neighbours along Z that divide each sequence among them (context parallelism): ranks first ..
// first + ranks - 1 of a Z group, of which this one is number `mine`. Keys and values go round
// them. They are ranks of Z, and no axis of their own, so that weights stay sharded over all of Z,
// and gradients are summed over the axes that sum them anyway.
struct ContextRing {
  int ranks = 1;
  int mine = 0;
  int first = 0;  // index in the Z group

  // Indices in the Z group.
  int next() const { return first + (mine + 1) % ranks; }
  int previous() const { return first + (mine + ranks - 1) % ranks; }
};

// The ring of the rank at `at`. `context`, the number of its ranks, divides z (check_context()).
ContextRing context_ring(const GridShape& shape, const Coordinate& at, int64_t context);

// UserError unless `context` is at least 1 and divides z. The message lists the divisors of z.
void check_context(const GridShape& shape, int64_t context);

// UserError unless the tokens of a sequence divide into 2 * context parts, or context is 1. The
// message has the next numbers that do.
void check_sequence(int64_t sequence, int64_t context);

// Tokens that lie side by side on a rank and in their sequence: `rows` of the rank's tokens, which
// are the tokens from `place` on.
struct TokenRun {
  Range rows;
  int64_t place = 0;
  bool operator==(const TokenRun&) const = default;
};

// The tokens of a sequence that rank `rank` of `ranks` has: both parts of query_rows(), one behind
// the other. With one rank, all of them are one run. `sequence` divides by 2 * ranks.
std::vector<TokenRun> token_runs(int64_t sequence, int ranks, int rank);

// Of `runs`, the tokens in `rows` of the rank's, as rows from `begin` on of another tensor.
std::vector<TokenRun> runs_within(const std::vector<TokenRun>& runs, const Range& rows, int64_t begin = 0);

}  // namespace axonn
