#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "axonn/data/shards/token_shard.hpp"
#include "data/text/text_encoding.hpp"

// The tokens of a text in a folder of their own: shards that follow each other, and a summary that
// is written last. No communication.
namespace axonn {

struct CachedTokens {
  std::vector<TokenShard> shards;
  uint64_t hash = 0;  // xxh64 of all tokens: the fingerprint of the text
};

// The beginning of the names of a rank's files in the folder.
std::filesystem::path shard_of_rank(const std::filesystem::path& folder, int rank);

// Both read all tokens, and count the bytes of their files in `progress`.
// Writes the summary of shards that are whole, and returns its text. `tokens` of each rank's shard;
// negative: it has none.
std::string write_summary(const std::filesystem::path& folder, const std::vector<int64_t>& tokens,
                          TextEncoding::Progress& progress);
// The text of the summary. Empty if there is none; also, with a warning, if the tokens are not
// those that it was written for.
std::string summary_in(const std::filesystem::path& folder, TextEncoding::Progress& progress);

// Maps the shards. Another host's files may be seen late. UserError if they are not those of the
// summary, as far as sizes tell.
CachedTokens open_tokens(const std::filesystem::path& folder, const std::string& summary);

}  // namespace axonn
