#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "axonn/data/shards/token_shard.hpp"

namespace axonn {

// A row of tokens that is read in ranges: a text in memory or in files that were made of it, or a
// shard. Files are mapped. Immutable; copies share the tokens, and any number of threads may use
// it.
class TokenSource {
 public:
  TokenSource(std::string name, std::vector<int32_t> tokens);  // `name`: for messages
  // All ids that read() gives are below `vocabulary`.
  TokenSource(TokenShard shard, int64_t vocabulary);
  // A text whose tokens lie in shards, one after the other. `fingerprint` is that of the text.
  TokenSource(std::string name, std::vector<TokenShard> parts, int64_t vocabulary, uint64_t fingerprint);

  const std::string& name() const;
  int64_t tokens() const;

  // Copies tokens [begin, begin + into.size()). UserError for a range beyond the tokens, and for an
  // id of a shard that is not in the vocabulary.
  void read(int64_t begin, std::span<int64_t> into) const;

  // Reads parts of a shard: all of a small one; of a large one the beginning, the end, and some
  // places between. UserError if an id there is not in the vocabulary.
  void check_some_ids() const;

  // Of a text, the xxh64 of its tokens (32-bit, little-endian). Of a shard, xxh64 of their number
  // and of those that check_some_ids() reads.
  uint64_t fingerprint() const;

 private:
  class Row;
  class TextRow;
  class ShardRow;
  class PartsRow;

  std::shared_ptr<const Row> row_;
};

}  // namespace axonn
