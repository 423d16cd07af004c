#include "data/tokenizer/files/read_files.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"
#include "axonn/core/sentence.hpp"
#include "axonn/core/utf8.hpp"
#include "core/files.hpp"
#include "data/tokenizer/files/readers.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhere = "data.tokenizer";
constexpr const char *kJson = "tokenizer.json", *kModel = "tokenizer.model", *kVocabulary = "vocab.json",
                     *kMerges = "merges.txt", *kConfig = "tokenizer_config.json", *kRanks = ".tiktoken";

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The files NAME.tiktoken of a directory, by name.
std::vector<fs::path> files_of_ranks(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error))
    if (entry.path().extension() == kRanks) found.push_back(entry.path());
  AXONN_CHECK(!error, kWhere, "cannot read the directory ", shown_name(directory.native()), ": ",
              reason_and_cure(error));
  std::ranges::sort(found);
  return found;
}

// The file of a tokenizer in a directory.
fs::path file_in(const fs::path& directory) {
  for (const char* name : {kJson, kModel, kVocabulary})
    if (is_there(directory / name)) return directory / name;
  const std::vector<fs::path> ranks = files_of_ranks(directory);
  AXONN_CHECK(ranks.size() <= 1, kWhere, shown_name(directory.native()), " has several tokenizers, such as ",
              join(ranks, ", ", [](const fs::path& path) { return shown_name(path.filename().native()); }),
              "; give the file of one");
  AXONN_CHECK(!ranks.empty(), kWhere, shown_name(directory.native()), " has no tokenizer; it needs ", kJson, ", ",
              kModel, ", ", kVocabulary, " with ", kMerges, ", or a file ", kRanks);
  return ranks.front();
}

// Reads files, and remembers which.
class Files {
 public:
  FileText read(const fs::path& path) {
    FileText file = read_file_text(path);
    hash_.update(std::as_bytes(std::span(file.text)));
    files_.push_back(path);
    return file;
  }
  ReadFiles result(TokenizerRules rules) { return {std::move(rules), files_, hash_.digest()}; }

 private:
  std::vector<fs::path> files_;
  disk::Hash64 hash_;
};

TokenizerRules read_pair(const fs::path& directory, Files& files, const TokenizerConfig& config) {
  for (const char* name : {kVocabulary, kMerges})
    AXONN_CHECK(is_there(directory / name), kWhere, shown_name(directory.native()), " must have both ", kVocabulary,
                " and ", kMerges, ", and ", name, " is missing");
  const FileText vocabulary = files.read(directory / kVocabulary);
  return read_vocabulary_and_merges(vocabulary, files.read(directory / kMerges), config);
}

TokenizerRules read_one(const fs::path& path, Files& files, const TokenizerConfig& config) {
  const std::string name = path.filename().string();
  if (name == kVocabulary || name == kMerges) return read_pair(path.parent_path(), files, config);
  const std::string kind = path.extension().string();
  AXONN_CHECK(kind == ".json" || kind == ".model" || kind == kRanks, kWhere, shown_name(path.native()),
              " must be a file .json, .model or ", kRanks, ", ", kMerges, ", or a directory with one of these");
  const FileText file = files.read(path);
  if (kind == ".json") return read_tokenizer_json(file, config);
  if (kind == kRanks) return read_tiktoken(file, config);
  AXONN_CHECK(!is_tiktoken(file), kWhere, file.name(),
              " is no model of SentencePiece, but ranks of tiktoken; take the model's ", kJson,
              ", or name it as such ranks are named");
  return read_sentencepiece(file, config);
}

}  // namespace

bool has_tokenizer(const fs::path& directory) {
  std::error_code ignored;
  return std::ranges::any_of(std::array{kJson, kModel, kVocabulary},
                             [&](const char* name) { return is_there(directory / name); }) ||
         (fs::is_directory(directory, ignored) && !files_of_ranks(directory).empty());
}

ReadFiles read_files(const fs::path& path) {
  AXONN_CHECK(is_there(path), kWhere, "there is no tokenizer ", shown_name(path.native()),
              "; give a directory, or a file ", kJson, ", ", kModel, ", ", kVocabulary, " or ", kRanks);
  Files files;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return files.result(read_one(path, files, {}));
  const fs::path file = file_in(path);
  TokenizerConfig config;
  if (is_there(path / kConfig)) config = read_tokenizer_config(files.read(path / kConfig));
  return files.result(read_one(file, files, config));
}

}  // namespace axonn
