#include "axonn/grid/context_ring.hpp"

#include <algorithm>

#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"
#include "axonn/grid/divisors.hpp"
#include "axonn/grid/query_rows.hpp"

namespace axonn {

ContextRing context_ring(const GridShape& shape, const Coordinate& at, int64_t context) {
  check_context(shape, context);
  const int ranks = static_cast<int>(context), mine = at.z % ranks;
  return {.ranks = ranks, .mine = mine, .first = at.z - mine};
}

void check_context(const GridShape& shape, int64_t context) {
  AXONN_CHECK(context >= 1 && shape.z % context == 0, "grid.context",
              "context must divide z, as ranks along Z divide the sequences, got context = ", context,
              " and z = ", shape.z, " (grid ", shape.to_string(), "): it may be ", join(divisors(shape.z), ", "));
}

void check_sequence(int64_t sequence, int64_t context) {
  if (context == 1) return;
  const int64_t parts = 2 * context, fewer = sequence / parts * parts;
  AXONN_CHECK(sequence > 0 && sequence % parts == 0, "grid.context", "each of ", context,
              " ranks has two parts of a sequence, so its tokens must divide by 2 * context = ", parts, ", got ",
              sequence, "; next ones that do: ", fewer == 0 ? "" : detail::concatenate(fewer, " and "), fewer + parts);
}

std::vector<TokenRun> token_runs(int64_t sequence, int ranks, int rank) {
  if (ranks == 1) return {TokenRun{{0, sequence}, 0}};
  std::vector<TokenRun> runs;
  int64_t rows = 0;
  for (const Range& part : query_rows(sequence, ranks, rank)) {
    runs.push_back({{rows, rows + part.size()}, part.begin});
    rows += part.size();
  }
  return runs;
}

std::vector<TokenRun> runs_within(const std::vector<TokenRun>& runs, const Range& rows, int64_t begin) {
  std::vector<TokenRun> within;
  for (const TokenRun& run : runs) {
    const int64_t from = std::max(run.rows.begin, rows.begin), to = std::min(run.rows.end, rows.end);
    if (from >= to) continue;
    const int64_t at = begin + from - rows.begin;
    within.push_back({{at, at + to - from}, run.place + from - run.rows.begin});
  }
  return within;
}

}  // namespace axonn
