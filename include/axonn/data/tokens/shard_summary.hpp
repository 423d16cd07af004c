#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "axonn/data/tokenizer/tokenizer.hpp"

namespace axonn {

// The part of the summary X.json that `gpt tokenize` writes beside a shard X.bin.
struct ShardSummary {
  std::string file;  // for messages
  int64_t tokens = 0, vocabulary = 0;
  bool of_bytes = false;       // made by --tokenizer bytes
  std::string tokenizer_hash;  // xxh64 of the tokenizer's files, as 16 digits; empty for bytes
};

// `shard` is as TokenShard::open() takes it. Nothing if no summary lies beside it.
std::optional<ShardSummary> summary_beside(const std::filesystem::path& shard);

// The tokenizer whose files X.tokenizer lie beside a shard, or that of bytes if its summary says
// so. UserError if the files are broken.
std::optional<Tokenizer> tokenizer_beside(const std::filesystem::path& shard);

// UserError if the summary beside the shard says that it has another number of tokens, or was made
// by another tokenizer; `tokenizer`: that of the run, nothing if it has none.
void check_summary(const std::filesystem::path& shard, int64_t tokens, const std::optional<Tokenizer>& tokenizer);

}  // namespace axonn
