#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "axonn/core/names.hpp"

namespace axonn {

enum class TokenizerKind : uint8_t { bytes, chars };

template <>
struct Names<TokenizerKind> {
  static constexpr Named<TokenizerKind> all[] = {{"bytes", TokenizerKind::bytes}, {"chars", TokenizerKind::chars}};
};

// Converts text to token ids and back. An immutable value.
//   bytes: 256 tokens, one per byte value; for any data.
//   chars: the vocabulary is the distinct UTF-8 code points of a text, in ascending order.
class Tokenizer {
 public:
  static Tokenizer bytes();
  static Tokenizer chars(std::string_view text);  // UserError when the text is empty or not UTF-8

  TokenizerKind kind() const { return kind_; }
  int64_t vocabulary_size() const;

  // UserError names a character outside the vocabulary, and its byte, line and column.
  std::vector<int32_t> encode(std::string_view text) const;
  // The first token of a text without a beginning: a line break, or the first character of a
  // vocabulary that has none.
  std::vector<int32_t> beginning() const;
  std::string decode(std::span<const int32_t> tokens) const;  // UserError for an id outside the vocabulary

  // Kept in checkpoints: {"kind": "chars", "vocabulary": "\n !..."}.
  std::string to_json() const;
  static Tokenizer from_json(std::string_view text);

  bool operator==(const Tokenizer& other) const { return kind_ == other.kind_ && code_points_ == other.code_points_; }

 private:
  Tokenizer(TokenizerKind kind, std::vector<char32_t> code_points);

  TokenizerKind kind_;
  std::vector<char32_t> code_points_;  // indexed by token; empty for bytes
  std::unordered_map<char32_t, int32_t> token_of_;
};

}  // namespace axonn
