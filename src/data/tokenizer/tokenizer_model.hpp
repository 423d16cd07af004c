#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/data/tokenizer/tokenizer_options.hpp"
#include "data/tokenizer/added_tokens.hpp"
#include "data/tokenizer/bpe.hpp"
#include "data/tokenizer/rewrite.hpp"
#include "data/tokenizer/splitters.hpp"

namespace axonn {

// The rules in the files of a tokenizer. A text goes through them from top to bottom.
struct TokenizerRules {
  std::vector<AddedToken> added;             // found in the text
  std::vector<Rewrite> normalizers;          // change each part between them
  std::vector<AddedToken> normalized_added;  // found after this; contents are as the normalizers leave them
  std::vector<Rewrite> word_rewrites;        // change each part between these
  std::vector<Splitter> splitters;
  BpeRules bpe;
  std::vector<int32_t> before, after;  // special tokens around a text

  // Back to text: per token the bytes that it adds to a text; empty for ids without a token.
  std::vector<std::string> bytes;
  std::vector<std::string> texts;  // the token in the files; may end before `bytes` does
  // The beginning of a text loses nothing, one space, or all spaces of the first token.
  enum class Strip : uint8_t { nothing, one_space, first_token } strip = Strip::nothing;
  std::vector<int32_t> special;  // control tokens, such as the end of a document
  std::optional<int32_t> begin, end;
};

// A tokenizer that was read from files. Immutable: any number of threads may use it.
class TokenizerModel {
 public:
  explicit TokenizerModel(const TokenizerRules& rules);

  int64_t vocabulary_size() const { return static_cast<int64_t>(begins_.size()) - 1; }
  std::optional<int32_t> begin_token() const { return begin_; }
  std::optional<int32_t> end_token() const { return end_; }

  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options) const;
  std::string decode(std::span<const int32_t> tokens, const DecodeOptions& options) const;  // all tokens valid
  std::string_view bytes_of(int32_t token) const;
  bool is_special(int32_t token) const { return special_[static_cast<size_t>(token)]; }

 private:
  void encode_section(std::string_view text, bool find_special, bool first, std::vector<int32_t>& tokens) const;
  void encode_words(std::string_view text, bool first, std::vector<int32_t>& tokens) const;

  AddedTokens added_, normalized_added_;
  std::vector<Rewrite> normalizers_, word_rewrites_;
  std::vector<Splitter> splitters_;
  Bpe bpe_;
  std::vector<int32_t> before_, after_;
  std::string bytes_;
  std::vector<size_t> begins_;  // place of each token in bytes_, and the end
  std::vector<bool> special_;
  TokenizerRules::Strip strip_;
  std::optional<int32_t> begin_, end_;
};

}  // namespace axonn
