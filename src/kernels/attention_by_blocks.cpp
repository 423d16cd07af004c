#include "kernels/attention_by_blocks.hpp"

#include <algorithm>

namespace axonn {
namespace {

// Tokens from `first` to `last` of a run.
TokenRun tokens_of(const TokenRun& run, int64_t first, int64_t last) {
  const int64_t begin = run.rows.begin + first - run.place;
  return {{begin, begin + last + 1 - first}, first};
}

// The first and last token that any of `queries` sees; nothing if first > last.
Range seen_by(const TokenRun& queries, const Sight& sight, const TokenRun& keys) {
  const int64_t first = sight.window > 0 ? queries.place - sight.window + 1 : 0,
                last = sight.causal ? last_of(queries) : last_of(keys);
  return {std::max(first, keys.place), std::min(last, last_of(keys))};
}

}  // namespace

std::vector<AttentionBlock> attention_blocks(const std::vector<TokenRun>& queries, const std::vector<TokenRun>& keys,
                                             const Sight& sight, const BlockSizes& most) {
  std::vector<AttentionBlock> blocks;
  for (const TokenRun& some : queries)
    for (int64_t query = some.place; query <= last_of(some); query += most.queries) {
      const TokenRun rows = tokens_of(some, query, std::min(query + most.queries - 1, last_of(some)));
      for (const TokenRun& others : keys) {
        const auto [first, last] = seen_by(rows, sight, others);
        for (int64_t key = first; key <= last; key += most.keys)
          blocks.push_back({rows, tokens_of(others, key, std::min(key + most.keys - 1, last))});
      }
    }
  return blocks;
}

}  // namespace axonn
