#include "tasks/text/cached_tokens.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <span>

#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "axonn/core/sentence.hpp"
#include "axonn/core/utf8.hpp"
#include "core/files.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char *kWhere = "tasks.text_cache", *kSummary = "summary.json";

uint64_t hash_of(const std::vector<TokenShard>& shards, TextEncoding::Progress& progress) {
  disk::Hash64 hash;
  std::vector<int32_t> block(size_t{1} << 18);
  for (const TokenShard& shard : shards)
    for (int64_t begin = 0; begin < shard.tokens(); begin += std::ssize(block)) {
      const int64_t count = std::min(std::ssize(block), shard.tokens() - begin);
      const std::span<int32_t> some = std::span(block).first(static_cast<size_t>(count));
      shard.read(begin, some);
      hash.update(std::as_bytes(some));
      progress.bytes += count * bytes_of(shard.type());
    }
  return hash.digest();
}

// A file that another host has just made may be seen late. One that is seen is not opened here:
// every rank of a job comes by.
void wait_for(const fs::path& file) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) disk::OpenFile{file};
}

// Json::exception for a text that is no summary.
CachedTokens open_listed(const fs::path& folder, const Json& summary) {
  CachedTokens found{.shards = {}, .hash = std::stoull(summary.at("tokens_xxh64").get<std::string>(), nullptr, 16)};
  for (const Json& listed : summary.at("shards")) {
    const fs::path prefix = folder / listed.at("name").get<std::string>();
    for (const char* suffix : {".bin", ".idx"}) wait_for(fs::path(prefix) += suffix);
    const TokenShard& shard = found.shards.emplace_back(TokenShard::open(prefix, ShardFormat::megatron));
    const auto tokens = listed.at("tokens").get<int64_t>();
    AXONN_CHECK(shard.tokens() == tokens, kWhere, shard.name(), " has ", shard.tokens(), " tokens, not the ", tokens,
                " that were written: remove ", shown_name(folder.native()));
  }
  return found;
}

}  // namespace

fs::path shard_of_rank(const fs::path& folder, int rank) {
  char name[32];
  std::snprintf(name, sizeof name, "part-%05d", rank);
  return folder / name;
}

std::string write_summary(const fs::path& folder, const std::vector<int64_t>& tokens,
                          TextEncoding::Progress& progress) {
  Json summary = {{"tokens_xxh64", disk::hex(0)}, {"shards", Json::array()}};
  for (int rank = 0; rank < std::ssize(tokens); ++rank)
    if (const int64_t count = tokens[static_cast<size_t>(rank)]; count >= 0)
      summary["shards"].push_back({{"name", shard_of_rank("", rank).string()}, {"tokens", count}});
  summary["tokens_xxh64"] = disk::hex(hash_of(open_listed(folder, summary).shards, progress));
  std::string text = summary.dump(1) + "\n";
  disk::write_synced(folder / kSummary, text);
  disk::sync_directory(folder);
  return text;
}

std::string summary_in(const fs::path& folder, TextEncoding::Progress& progress) {
  std::error_code ignored;
  if (!fs::exists(folder / kSummary, ignored)) return "";
  try {
    std::string text = disk::read_text(folder / kSummary);
    const CachedTokens found = open_listed(folder, Json::parse(text));
    AXONN_CHECK(hash_of(found.shards, progress) == found.hash, kWhere, "the tokens in ", shown_name(folder.native()),
                " are not those that were written there; remove it");
    return text;
  } catch (const std::exception& error) {
    log::warn(sentence_of(error), "; the text becomes tokens again");
    return "";
  }
}

CachedTokens open_tokens(const fs::path& folder, const std::string& summary) {
  return open_listed(folder, Json::parse(summary));
}

}  // namespace axonn
