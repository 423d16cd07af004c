#include "axonn/data/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <cstdio>
#include <set>

#include <nlohmann/json.hpp>

#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "axonn/core/utf8.hpp"
#include "core/files.hpp"
#include "data/tokenizer/files/read_files.hpp"
#include "data/tokenizer/tokenizer_model.hpp"
#include "data/tokenizer/unicode/code_points.hpp"

namespace axonn {
namespace {

void check_utf8(std::string_view text) {
  const auto bad = first_invalid_utf8(text);
  AXONN_CHECK(!bad, "data.tokenizer", "the text is not UTF-8 at byte ", bad.value_or(0),
              "; --tokenizer bytes takes any data");
}

std::string code_point_name(char32_t value) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, "U+%04X", static_cast<unsigned>(value));
  std::string shown;
  append_utf8(shown, value);
  return (value < 0x20 || value == 0x7F ? std::string() : "'" + shown + "' ") + "(" + buffer + ")";
}

[[noreturn]] void refuse_character(std::string_view text, size_t at, char32_t value, int64_t vocabulary) {
  const std::string_view before = text.substr(0, at);
  const auto line = std::ranges::count(before, '\n') + 1;
  const size_t line_begin = before.rfind('\n') + 1;  // npos + 1 = 0
  const auto is_start = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  const auto column = std::ranges::count_if(before.substr(line_begin), is_start) + 1;
  throw UserError(
      "data.tokenizer",
      detail::concatenate("character ", code_point_name(value), " at byte ", at, " (line ", line, ", column ", column,
                          ") of the text is not in the vocabulary of ", vocabulary, " characters"));
}

Tokenizer from_same_files(const std::filesystem::path& directory, const std::string& hash) {
  AXONN_CHECK(!directory.empty() && has_tokenizer(directory), "data.tokenizer",
              "the tokenizer of this checkpoint lies beside it in ", shown_name(directory.native()),
              ", and is not there; copy the whole directory of the run");
  Tokenizer tokenizer = Tokenizer::from_files(directory);
  AXONN_CHECK(disk::hex(tokenizer.files_hash()) == hash, "data.tokenizer", shown_name(directory.native()),
              " holds another tokenizer than the checkpoint was trained with (xxh64 ",
              disk::hex(tokenizer.files_hash()), ", not ", hash, "); copy the run's own files back");
  return tokenizer;
}

}  // namespace

Tokenizer::Tokenizer(TokenizerKind kind, std::vector<char32_t> code_points)
    : kind_(kind), code_points_(std::move(code_points)) {
  for (size_t i = 0; i < code_points_.size(); ++i) token_of_.emplace(code_points_[i], static_cast<int32_t>(i));
}

Tokenizer Tokenizer::bytes() { return Tokenizer(TokenizerKind::bytes, {}); }

Tokenizer Tokenizer::chars(std::string_view text) {
  AXONN_CHECK(!text.empty(), "data.tokenizer",
              "the vocabulary of --tokenizer chars is made from the text, and the text is empty");
  check_utf8(text);
  std::set<char32_t> distinct;
  for (size_t at = 0; at < text.size();) {
    const auto [value, length] = first_code_point(text.substr(at));
    distinct.insert(value);
    at += length;
  }
  return Tokenizer(TokenizerKind::chars, {distinct.begin(), distinct.end()});
}

Tokenizer Tokenizer::from_files(const std::filesystem::path& path) {
  ReadFiles read = read_files(path);
  Tokenizer tokenizer(TokenizerKind::files, {});
  tokenizer.model_ = std::make_shared<const TokenizerModel>(read.rules);
  tokenizer.files_ = std::move(read.files);
  tokenizer.files_hash_ = read.hash;
  return tokenizer;
}

bool Tokenizer::is_in(const std::filesystem::path& directory) { return has_tokenizer(directory); }

int64_t Tokenizer::vocabulary_size() const {
  if (kind_ == TokenizerKind::files) return model_->vocabulary_size();
  return kind_ == TokenizerKind::bytes ? 256 : static_cast<int64_t>(code_points_.size());
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (kind_ == TokenizerKind::files) return model_->encode(text, options);
  std::vector<int32_t> tokens;
  tokens.reserve(text.size());
  if (kind_ == TokenizerKind::bytes) {
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  check_utf8(text);
  for (size_t at = 0; at < text.size();) {
    const auto [value, length] = first_code_point(text.substr(at));
    const auto found = token_of_.find(value);
    if (found == token_of_.end()) refuse_character(text, at, value, vocabulary_size());
    tokens.push_back(found->second);
    at += length;
  }
  return tokens;
}

std::vector<int32_t> Tokenizer::beginning() const {
  if (kind_ == TokenizerKind::bytes) return {'\n'};
  if (kind_ == TokenizerKind::files) {
    const auto token = begin_token() ? begin_token() : end_token();
    return token ? std::vector{*token} : encode("\n");
  }
  const auto found = token_of_.find(U'\n');
  return {found == token_of_.end() ? 0 : found->second};
}

void Tokenizer::check(int32_t token) const {
  AXONN_CHECK(token >= 0 && token < vocabulary_size(), "data.tokenizer", "token ", token,
              " is not in the vocabulary of ", vocabulary_size());
}

std::string Tokenizer::decode(std::span<const int32_t> tokens, const DecodeOptions& options) const {
  for (const int32_t token : tokens) check(token);
  if (kind_ == TokenizerKind::files) return model_->decode(tokens, options);
  std::string text;
  for (const int32_t token : tokens) text += bytes_of(token);
  return text;
}

std::string Tokenizer::bytes_of(int32_t token) const {
  check(token);
  if (kind_ == TokenizerKind::files) return std::string(model_->bytes_of(token));
  if (kind_ == TokenizerKind::bytes) return {static_cast<char>(static_cast<unsigned char>(token))};
  std::string text;
  append_utf8(text, code_points_[static_cast<size_t>(token)]);
  return text;
}

bool Tokenizer::is_special(int32_t token) const {
  check(token);
  return model_ && model_->is_special(token);
}

std::optional<int32_t> Tokenizer::begin_token() const { return model_ ? model_->begin_token() : std::nullopt; }
std::optional<int32_t> Tokenizer::end_token() const { return model_ ? model_->end_token() : std::nullopt; }

std::string Tokenizer::to_json() const {
  if (kind_ == TokenizerKind::files)
    return nlohmann::ordered_json{{"kind", "files"}, {"xxh64", disk::hex(files_hash_)}}.dump();
  nlohmann::ordered_json file = {{"kind", to_string(kind_)}};
  if (kind_ == TokenizerKind::chars) {
    std::string vocabulary;
    for (const char32_t value : code_points_) append_utf8(vocabulary, value);
    file["vocabulary"] = vocabulary;
  }
  return file.dump();
}

Tokenizer Tokenizer::from_json(std::string_view text, const std::filesystem::path& files) {
  const auto file = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto is_text = [&](const char* key) { return file.is_object() && file.contains(key) && file[key].is_string(); };
  AXONN_CHECK(is_text("kind"), "data.tokenizer", "not a tokenizer: ", text.substr(0, 80));
  if (file["kind"] == "files") {
    AXONN_CHECK(is_text("xxh64"), "data.tokenizer", "a tokenizer of kind files needs their xxh64, got ",
                text.substr(0, 80));
    return from_same_files(files, file["xxh64"].get<std::string>());
  }
  const TokenizerKind kind = parse_name<TokenizerKind>(file["kind"].get<std::string>(), "a tokenizer");
  if (kind == TokenizerKind::bytes) return bytes();
  AXONN_CHECK(is_text("vocabulary"), "data.tokenizer", "a tokenizer of kind chars needs its vocabulary, got ",
              text.substr(0, 80));
  return chars(file["vocabulary"].get<std::string>());
}

}  // namespace axonn
