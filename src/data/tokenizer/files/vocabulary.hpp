#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "data/tokenizer/files/json_part.hpp"
#include "data/tokenizer/tokenizer_model.hpp"

namespace axonn {

// How the text of a token in a file becomes the bytes that it adds to a text.
struct TokenForm {
  bool letters = false;  // letters of GPT-2 that stand for bytes
  bool spaces = false;   // U+2581 stands for a space
  bool bytes = false;    // <0x0A> stands for a byte
};

std::string bytes_of_token(std::string_view text, const TokenForm& form);
std::optional<uint8_t> byte_of_name(std::string_view text);  // <0x0A>
std::string with_spaces(std::string_view text);              // for U+2581

// The tokens of a file by their texts, which must outlive this.
class Vocabulary {
 public:
  explicit Vocabulary(std::string file) : file_(std::move(file)) {}

  // UserError for an id that is negative, too large for a file of `most` tokens, or another
  // token's, and for a token with two ids.
  void add(std::string_view token, int64_t id, size_t most);
  std::optional<int32_t> find(std::string_view token) const;
  int32_t at(std::string_view token) const;                                         // UserError when it is missing
  Merge merge(std::string_view left, std::string_view right, uint32_t rank) const;  // UserError, likewise
  const std::unordered_map<std::string_view, int32_t>& all() const { return token_of_; }  // by text
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  std::unordered_map<std::string_view, int32_t> token_of_;
  std::unordered_map<int32_t, std::string_view> text_of_;
};

// An entry of added_tokens, or of added_tokens_decoder. UserError if it asks for single_word.
AddedToken read_added_token(const JsonPart& part, int64_t id);

// Sets `texts` and `bytes` of one token.
void set_token(int32_t token, std::string_view text, std::string bytes, TokenizerRules& rules);
// Sets `texts` and `bytes` of the rules, and the pieces of BPE, from a vocabulary.
void set_pieces(const Vocabulary& vocabulary, const TokenForm& form, TokenizerRules& rules);
// Adds a token that is found as a whole. Its text must be in the vocabulary.
void add_token(const AddedToken& token, bool normalized, const TokenForm& form, TokenizerRules& rules);

}  // namespace axonn
