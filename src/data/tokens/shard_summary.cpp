#include "axonn/data/tokens/shard_summary.hpp"

#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"
#include "axonn/core/json/json_depth.hpp"
#include "axonn/core/utf8.hpp"
#include "core/files.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;
constexpr const char* kWhere = "data.shard_summary";
constexpr std::streamsize kMostBytes = 1 << 20;  // a longer file is no summary

fs::path beside(const fs::path& shard, const char* suffix) {
  const bool whole = shard.extension() == ".bin" || shard.extension() == ".idx";
  fs::path path = shard;
  if (whole) path.replace_extension();
  return path += suffix;
}

}  // namespace

std::optional<ShardSummary> summary_beside(const fs::path& shard) {
  const fs::path path = beside(shard, ".json");
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in || in.tellg() > kMostBytes) return std::nullopt;
  in.seekg(0);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  nlohmann::json file;
  if (is_shallow_json(text)) file = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto is = [&](const char* key, auto kind) { return file.is_object() && file.contains(key) && kind(file[key]); };
  const auto number = [](const nlohmann::json& value) { return value.is_number_integer(); };
  const auto words = [](const nlohmann::json& value) { return value.is_string(); };
  if (!is("tokens", number) || !is("vocabulary", number) || !is("tokenizer", words)) return std::nullopt;
  ShardSummary summary{.file = shown_name(path.native()),
                       .tokens = file["tokens"].get<int64_t>(),
                       .vocabulary = file["vocabulary"].get<int64_t>(),
                       .of_bytes = file["tokenizer"] == "bytes",
                       .tokenizer_hash = ""};
  if (is("tokenizer_xxh64", words)) summary.tokenizer_hash = file["tokenizer_xxh64"].get<std::string>();
  return summary;
}

std::optional<Tokenizer> tokenizer_beside(const fs::path& shard) {
  if (const fs::path files = beside(shard, ".tokenizer"); Tokenizer::is_in(files)) return Tokenizer::from_files(files);
  const auto summary = summary_beside(shard);
  return summary && summary->of_bytes ? std::optional(Tokenizer::bytes()) : std::nullopt;
}

void check_summary(const fs::path& shard, int64_t tokens, const std::optional<Tokenizer>& tokenizer) {
  const auto summary = summary_beside(shard);
  if (!summary) return;
  AXONN_CHECK(summary->tokens == tokens, kWhere, shown_name(shard.native()), " has ", tokens,
              " tokens, and its summary ", summary->file, " says ", summary->tokens,
              ": they do not belong together; make it again");
  if (!tokenizer) return;
  const bool files = tokenizer->kind() == TokenizerKind::files;
  const bool same = files ? disk::hex(tokenizer->files_hash()) == summary->tokenizer_hash
                          : summary->of_bytes && tokenizer->kind() == TokenizerKind::bytes;
  AXONN_CHECK(same, kWhere, shown_name(shard.native()), " was made by another tokenizer than that of the run, ",
              files ? "files" : to_string(tokenizer->kind()), ": its summary ", summary->file, " names ",
              summary->of_bytes ? "bytes" : "files with xxh64 " + summary->tokenizer_hash,
              "; give the tokenizer that it was made with");
}

}  // namespace axonn
