#include "axonn/data/text/text_data.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#define XXH_INLINE_ALL  // all of it is in its header
#include <xxhash.h>

#include "axonn/core/error.hpp"
#include "axonn/core/philox.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBinaryProbeBytes = 8192;

bool is_hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(fs::file_size(path), '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  AXONN_CHECK(in, "data.text_data", "cannot read ", path.string());
  return text;
}

bool is_binary(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  AXONN_CHECK(in, "data.text_data", "cannot read ", path.string());
  std::string head(kBinaryProbeBytes, '\0');
  in.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(in.gcount()));
  return head.find('\0') != std::string::npos;
}

std::vector<fs::path> files_under(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(directory, error); !error && entry != fs::end(entry);
       entry.increment(error)) {
    if (is_hidden(entry->path())) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file() && !is_binary(entry->path())) {
      found.push_back(entry->path());
    }
  }
  AXONN_CHECK(!error, "data.text_data", "cannot read the directory ", directory.string(), ": ", error.message());
  std::ranges::sort(found, {}, [](const fs::path& path) { return path.native(); });
  return found;
}

std::vector<fs::path> files_of(const std::vector<std::string>& paths) {
  AXONN_CHECK(!paths.empty(), "data.text_data", "no data: give files or directories with --data PATH...");
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    AXONN_CHECK(!path.empty(), "data.text_data", "--data has an empty path: give files or directories");
    AXONN_CHECK(fs::exists(path), "data.text_data", "data path ", path, " does not exist");
    AXONN_CHECK(fs::is_regular_file(path) || fs::is_directory(path), "data.text_data", "data path ", path,
                " is neither a file nor a directory");
    const auto more = fs::is_directory(path) ? files_under(path) : std::vector<fs::path>{path};
    files.insert(files.end(), more.begin(), more.end());
  }
  return files;
}

std::string read_all(const std::vector<fs::path>& files, TokenizerKind kind) {
  std::string all;
  for (const fs::path& file : files) {
    const std::string text = read_text(file);
    if (kind == TokenizerKind::chars) {
      const auto bad = first_invalid_utf8(text);
      AXONN_CHECK(!bad, "data.text_data", file.string(), " is not UTF-8 at byte ", bad.value_or(0),
                  "; --tokenizer bytes takes any data");
    }
    if (&file != &files.front()) all += '\n';
    all += text;
  }
  return all;
}

std::string joined(const std::vector<std::string>& paths) {
  std::string line;
  for (const std::string& path : paths) line += (line.empty() ? "" : ", ") + path;
  return line;
}

std::string text_of(const std::vector<fs::path>& files, const std::vector<std::string>& paths, TokenizerKind kind) {
  std::string text = read_all(files, kind);
  const bool empty = text.find_first_not_of('\n') == std::string::npos;
  AXONN_CHECK(!empty, "data.text_data", "there is no text in ", joined(paths), " (", files.size(),
              " files; hidden and binary ones of a directory are left out)");
  return text;
}

}  // namespace

TextData TextData::load(const std::vector<std::string>& paths, TokenizerKind kind, double validation_fraction) {
  const auto files = files_of(paths);
  const std::string text = text_of(files, paths, kind);
  Tokenizer tokenizer = kind == TokenizerKind::bytes ? Tokenizer::bytes() : Tokenizer::chars(text);
  return TextData(std::move(tokenizer), text, std::ssize(files), validation_fraction);
}

TextData TextData::load(const std::vector<std::string>& paths, const Tokenizer& tokenizer, double validation_fraction) {
  const auto files = files_of(paths);
  return TextData(tokenizer, text_of(files, paths, tokenizer.kind()), std::ssize(files), validation_fraction);
}

TextData::TextData(Tokenizer tokenizer, std::string_view text, int64_t files, double validation_fraction)
    : tokenizer_(std::move(tokenizer)), tokens_(tokenizer_.encode(text)), files_(files) {
  AXONN_CHECK(validation_fraction >= 0 && validation_fraction < 1, "data.text_data",
              "the share of the data that validates must be in [0, 1), got ", validation_fraction);
  train_tokens_ = static_cast<int64_t>(static_cast<double>(tokens_.size()) * (1 - validation_fraction));
  fingerprint_ = XXH64(tokens_.data(), tokens_.size() * sizeof(int32_t), 0);
}

void TextData::check_sequence(int64_t sequence) const {
  AXONN_CHECK(sequence >= 1, "data.text_data", "a sequence has at least 1 token, got ", sequence);
  AXONN_CHECK(train_tokens_ >= sequence + 1, "data.text_data", "the data has ", train_tokens_,
              " tokens to train on, a sequence of ", sequence, " needs at least ", sequence + 1);
}

int64_t TextData::window_start(uint64_t number, uint64_t seed, int64_t sequence) const {
  check_sequence(sequence);
  const auto starts = static_cast<uint64_t>(std::max<int64_t>(1, train_tokens_ - sequence - 1));
  const auto words = philox(seed, number, 0, philox_stream("sample", ""));
  const uint64_t bits = uint64_t{words[0]} << 32 | words[1];
  return static_cast<int64_t>(static_cast<unsigned __int128>(bits) * starts >> 64);
}

void TextData::copy_window(int64_t start, std::span<int64_t> ids, std::span<int64_t> targets) const {
  AXONN_CHECK(ids.size() == targets.size(), "data.text_data", "ids and targets have the same size, got ", ids.size(),
              " and ", targets.size());
  const auto from = tokens_.begin() + start;
  std::copy_n(from, ids.size(), ids.begin());
  std::copy_n(from + 1, ids.size(), targets.begin());
}

void TextData::window(uint64_t number, uint64_t seed, std::span<int64_t> ids, std::span<int64_t> targets) const {
  copy_window(window_start(number, seed, std::ssize(ids)), ids, targets);
}

int64_t TextData::validation_windows(int64_t sequence) const {
  AXONN_CHECK(sequence >= 1, "data.text_data", "a sequence has at least 1 token, got ", sequence);
  return std::max<int64_t>(0, (validation_tokens() - 1) / sequence);
}

void TextData::validation_window(int64_t index, std::span<int64_t> ids, std::span<int64_t> targets) const {
  const int64_t windows = validation_windows(std::ssize(ids));
  AXONN_CHECK(index >= 0 && index < windows, "data.text_data", "the held-out part has ", windows, " windows of ",
              ids.size(), " tokens, asked for number ", index);
  copy_window(train_tokens_ + index * std::ssize(ids), ids, targets);
}

}  // namespace axonn
