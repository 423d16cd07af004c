#include "axonn/data/text/text_data.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#define XXH_INLINE_ALL  // all of it is in its header
#include <xxhash.h>

#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"
#include "axonn/core/log.hpp"
#include "axonn/core/sentence.hpp"
#include "axonn/core/utf8.hpp"
#include "data/folder/content_guess.hpp"
#include "data/folder/folder_walk.hpp"
#include "data/tokenizer/document_tokens.hpp"

namespace axonn {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWhere = "data.text_data";

// One file or folder of --data after the other, with a line break between two files.
struct Texts {
  std::string all;
  std::vector<size_t> begins;  // one of each file
  FilesRead read;
};

std::string read_text(const fs::path& path) {
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  std::ifstream in(path, std::ios::binary);
  AXONN_CHECK(!error && in, kWhere, "cannot read ", path.string(), ": ",
              error ? reason_and_cure(error) : reason_and_cure(errno));
  std::string text(bytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(bytes));
  AXONN_CHECK(in, kWhere, path.string(), " ended after ", in.gcount(), " of ", bytes, " bytes");
  return text;
}

ContentGuess guess_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  AXONN_CHECK(in, kWhere, "cannot read ", path.string(), ": ", reason_and_cure(errno));
  std::string head(kGuessBytes, '\0');
  in.read(head.data(), std::ssize(head));
  AXONN_CHECK(!in.bad(), kWhere, "cannot read ", path.string(), ": ", reason_and_cure(errno));
  return guess_content(std::string_view(head).substr(0, static_cast<size_t>(in.gcount())));
}

// A part of a file that was never written, or was lost with a disk, is zeros.
void warn_of_zeros(const fs::path& path, const std::string& text) {
  const size_t first = text.find('\0');
  if (first == std::string::npos) return;
  log::warn(path.string(), " has ", std::ranges::count(text, '\0'), " NUL bytes, the first at byte ", first,
            ": a part of it may be lost; they are trained on as they are");
}

void append(const fs::path& path, const std::string& text, TokenizerKind kind, Texts& texts) {
  if (kind == TokenizerKind::chars) {
    const auto bad = first_invalid_utf8(text);
    AXONN_CHECK(!bad, kWhere, path.string(), " is not UTF-8 at byte ", bad.value_or(0),
                "; --tokenizer bytes takes any data");
  }
  if (texts.read.files++ > 0) texts.all += '\n';
  texts.begins.push_back(texts.all.size());
  texts.read.bytes += std::ssize(text);
  texts.all += text;
}

// A file that the user named.
void append_named(const fs::path& path, TokenizerKind kind, Texts& texts) {
  const ContentGuess guess = guess_of(path);
  const bool stands_for_text = guess.kind == ContentClass::packed || guess.kind == ContentClass::pointer;
  AXONN_CHECK(!stands_for_text, kWhere, path.string(), " is no text, it seems to be ", guess.name, "; ", guess.cure);
  const std::string text = read_text(path);
  if (guess.kind == ContentClass::empty)
    log::warn(path.string(), " is empty");
  else if (guess.kind != ContentClass::text)
    log::warn(path.string(), " is no plain text, it seems to be ", guess.name, ", its bytes are trained on as they are",
              guess.cure.empty() ? "" : "; ", guess.cure);
  else
    warn_of_zeros(path, text);
  append(path, text, kind, texts);
}

void append_folder(const fs::path& directory, TokenizerKind kind, Texts& texts) {
  FolderWalk walk = walk_folder(directory);
  std::vector<FilesRead::LeftOut> left_out = std::move(walk.left_out);
  for (const FolderFile& file : walk.files) {
    const fs::path path = directory / file.name;
    const ContentGuess guess = guess_of(path);
    if (is_text_of_folder(guess, path)) {
      const std::string text = read_text(path);
      warn_of_zeros(path, text);
      append(path, text, kind, texts);
    } else {
      left_out.push_back({std::string(guess.name), file.name});
    }
  }
  std::ranges::sort(left_out, {}, &FilesRead::LeftOut::name);
  std::ranges::move(left_out, std::back_inserter(texts.read.left_out));
}

Texts read_texts(const std::vector<std::string>& paths, TokenizerKind kind) {
  AXONN_CHECK(!paths.empty(), kWhere, "no data: give files or directories with --data PATH...");
  Texts texts;
  for (const std::string& path : paths) {
    AXONN_CHECK(!path.empty(), kWhere, "--data has an empty path: give files or directories");
    std::error_code error, ignored;
    const fs::file_status status = fs::status(path, error);
    const bool found = status.type() != fs::file_type::not_found;
    AXONN_CHECK(found, kWhere, "data path ", shown_name(path),
                fs::is_symlink(path, ignored) ? " is a link to what" : "", " does not exist");
    AXONN_CHECK(!error, kWhere, "cannot read the data path ", shown_name(path), ": ", reason_and_cure(error));
    AXONN_CHECK(fs::is_regular_file(status) || fs::is_directory(status), kWhere, "data path ", shown_name(path),
                " is neither a file nor a directory");
    fs::is_directory(status) ? append_folder(path, kind, texts) : append_named(path, kind, texts);
  }
  const std::string names = join(paths, ", ", shown_name);
  AXONN_CHECK(texts.all.find_first_not_of('\n') != std::string::npos, kWhere, "there is no text in ", names, " (",
              texts.read.to_string(), ")");
  log::info(names, ": ", texts.read.to_string());
  return texts;
}

std::vector<int32_t> tokens_of(const Texts& texts, const Tokenizer& tokenizer, DocumentEnds ends) {
  if (ends == DocumentEnds::line_breaks || !tokenizer.end_token()) return tokenizer.encode(texts.all);
  const std::string_view all = texts.all;
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < texts.begins.size(); ++i) {
    const size_t begin = texts.begins[i];
    const size_t end = i + 1 < texts.begins.size() ? texts.begins[i + 1] - 1 : all.size();
    if (begin == end) continue;
    const std::vector<int32_t> document = document_tokens(tokenizer, all.substr(begin, end - begin), {});
    tokens.insert(tokens.end(), document.begin(), document.end());
  }
  return tokens;
}

}  // namespace

TextData TextData::load(const std::vector<std::string>& paths, TokenizerKind kind) {
  Texts texts = read_texts(paths, kind);
  Tokenizer tokenizer = kind == TokenizerKind::bytes ? Tokenizer::bytes() : Tokenizer::chars(texts.all);
  std::vector<int32_t> tokens = tokens_of(texts, tokenizer, DocumentEnds::line_breaks);
  return TextData(std::move(tokenizer), std::move(tokens), std::move(texts.read));
}

TextData TextData::load(const std::vector<std::string>& paths, const Tokenizer& tokenizer, DocumentEnds ends) {
  Texts texts = read_texts(paths, tokenizer.kind());
  return TextData(tokenizer, tokens_of(texts, tokenizer, ends), std::move(texts.read));
}

TextData::TextData(Tokenizer tokenizer, std::vector<int32_t> tokens, FilesRead read)
    : tokenizer_(std::move(tokenizer)), tokens_(std::move(tokens)), read_(std::move(read)) {}

uint64_t TextData::fingerprint() const { return XXH64(tokens_.data(), tokens_.size() * sizeof(int32_t), 0); }

}  // namespace axonn
