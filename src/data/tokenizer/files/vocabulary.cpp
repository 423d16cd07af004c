#include "data/tokenizer/files/vocabulary.hpp"

#include <algorithm>

#include "axonn/core/error.hpp"
#include "axonn/core/utf8.hpp"
#include "data/tokenizer/files/byte_letters.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "data.tokenizer";

int digit_of(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

}  // namespace

void set_token(int32_t token, std::string_view text, std::string bytes, TokenizerRules& rules) {
  const auto index = static_cast<size_t>(token);
  if (rules.bytes.size() <= index) rules.bytes.resize(index + 1);
  if (rules.texts.size() <= index) rules.texts.resize(index + 1);
  rules.bytes[index] = std::move(bytes);
  rules.texts[index] = text;
}

std::optional<uint8_t> byte_of_name(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  const int high = digit_of(text[3]), low = digit_of(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<uint8_t>(high * 16 + low);
}

std::string with_spaces(std::string_view text) {
  const Rewrite spaces = {.kind = Rewrite::Kind::replace, .from = "\u2581", .to = " "};
  return rewritten(text, std::span(&spaces, 1), false).value_or(std::string(text));
}

std::string bytes_of_token(std::string_view text, const TokenForm& form) {
  if (form.letters) return bytes_of_letters(text).value_or(std::string(text));
  const auto byte = form.bytes ? byte_of_name(text) : std::nullopt;
  if (byte) return {static_cast<char>(*byte)};
  return form.spaces ? with_spaces(text) : std::string(text);
}

void Vocabulary::add(std::string_view token, int64_t id, size_t most) {
  const auto limit = static_cast<int64_t>(4 * most + 65536);  // vocabularies have holes, but not so many
  AXONN_CHECK(id >= 0 && id < limit, kWhere, file_, ": token '", printable(token), "' has id ", id,
              ", and a vocabulary of ", most, " tokens has only ids from 0 to ", limit - 1);
  const auto [by_text, new_text] = token_of_.emplace(token, static_cast<int32_t>(id));
  AXONN_CHECK(by_text->second == id, kWhere, file_, ": token '", printable(token), "' has the ids ", by_text->second,
              " and ", id, "; download the file again");
  const auto [by_id, new_id] = text_of_.emplace(static_cast<int32_t>(id), token);
  AXONN_CHECK(by_id->second == token, kWhere, file_, ": the tokens '", printable(by_id->second), "' and '",
              printable(token), "' both have id ", id, "; download the file again");
}

std::optional<int32_t> Vocabulary::find(std::string_view token) const {
  const auto found = token_of_.find(token);
  return found == token_of_.end() ? std::nullopt : std::optional(found->second);
}

int32_t Vocabulary::at(std::string_view token) const {
  const auto found = find(token);
  AXONN_CHECK(found, kWhere, file_, " names the token '", printable(token),
              "', which is not in the vocabulary; download the file again");
  return *found;
}

Merge Vocabulary::merge(std::string_view left, std::string_view right, uint32_t rank) const {
  std::string joined(left);
  joined += right;
  return {at(left), at(right), at(joined), rank};
}

AddedToken read_added_token(const JsonPart& part, int64_t id) {
  if (part.flag_or("single_word", false)) refuse(part, "single_word", "tokens that are found within words, too");
  return {.content = part.word("content"),
          .token = static_cast<int32_t>(std::clamp<int64_t>(id, -1, INT32_MAX)),
          .special = part.flag_or("special", false),
          .takes_left = part.flag_or("lstrip", false),
          .takes_right = part.flag_or("rstrip", false)};
}

void set_pieces(const Vocabulary& vocabulary, const TokenForm& form, TokenizerRules& rules) {
  rules.bpe.pieces.reserve(vocabulary.all().size());
  for (const auto& [text, token] : vocabulary.all()) {
    set_token(token, text, bytes_of_token(text, form), rules);
    auto piece = rules.bpe.of_bytes ? bytes_of_letters(text) : std::optional(std::string(text));
    if (piece) rules.bpe.pieces.emplace_back(std::move(*piece), token);
  }
}

void add_token(const AddedToken& token, bool normalized, const TokenForm& form, TokenizerRules& rules) {
  set_token(token.token, token.content, form.spaces ? with_spaces(token.content) : token.content, rules);
  if (token.special) rules.special.push_back(token.token);
  if (!normalized) return rules.added.push_back(token);
  AddedToken after = token;
  if (auto content = rewritten(token.content, rules.normalizers, true)) after.content = std::move(*content);
  rules.normalized_added.push_back(std::move(after));
}

}  // namespace axonn
