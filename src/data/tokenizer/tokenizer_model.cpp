#include "data/tokenizer/tokenizer_model.hpp"

#include <algorithm>
#include <iterator>

#include "data/tokenizer/unicode/code_points.hpp"

namespace axonn {

TokenizerModel::TokenizerModel(const TokenizerRules& rules)
    : added_(rules.added),
      normalized_added_(rules.normalized_added),
      normalizers_(rules.normalizers),
      word_rewrites_(rules.word_rewrites),
      splitters_(rules.splitters),
      bpe_(rules.bpe),
      before_(rules.before),
      after_(rules.after),
      special_(rules.bytes.size()),
      strip_(rules.strip),
      begin_(rules.begin),
      end_(rules.end) {
  begins_.push_back(0);
  for (const std::string& bytes : rules.bytes) {
    bytes_ += bytes;
    begins_.push_back(bytes_.size());
  }
  for (const int32_t token : rules.special) special_[static_cast<size_t>(token)] = true;
}

std::vector<int32_t> TokenizerModel::encode(std::string_view text, const EncodeOptions& options) const {
  const ReplacedText valid = replace_invalid_utf8(text);
  if (valid.replaced > 0) text = valid.text;
  std::vector<int32_t> tokens;
  tokens.reserve(text.size() / 4 + before_.size() + after_.size());
  if (options.add_special) tokens = before_;
  bool first = true;
  added_.split(text, options.find_special, [&](std::string_view part, const AddedToken* token) {
    if (token != nullptr)
      tokens.push_back(token->token);
    else
      encode_section(part, options.find_special, first, tokens);
    first = false;
  });
  if (options.add_special) std::ranges::copy(after_, std::back_inserter(tokens));
  return tokens;
}

void TokenizerModel::encode_section(std::string_view text, bool find_special, bool first,
                                    std::vector<int32_t>& tokens) const {
  const auto normalized = rewritten(text, normalizers_, first);
  normalized_added_.split(normalized ? std::string_view(*normalized) : text, find_special,
                          [&](std::string_view part, const AddedToken* token) {
                            if (token != nullptr)
                              tokens.push_back(token->token);
                            else
                              encode_words(part, first, tokens);
                            first = false;
                          });
}

void TokenizerModel::encode_words(std::string_view text, bool first, std::vector<int32_t>& tokens) const {
  const auto changed = rewritten(text, word_rewrites_, first);
  if (changed) text = *changed;
  Bpe::Work work(text.size());
  for_each_word(std::span(splitters_), text, [&](std::string_view word) { bpe_.encode(word, work, tokens); });
}

std::string_view TokenizerModel::bytes_of(int32_t token) const {
  const size_t begin = begins_[static_cast<size_t>(token)], end = begins_[static_cast<size_t>(token) + 1];
  return std::string_view(bytes_).substr(begin, end - begin);
}

std::string TokenizerModel::decode(std::span<const int32_t> tokens, const DecodeOptions& options) const {
  std::string text;
  bool is_first = true;
  for (const int32_t token : tokens) {
    if (options.skip_special && is_special(token)) continue;
    text += bytes_of(token);
    if (is_first && strip_ == TokenizerRules::Strip::first_token) std::erase(text, ' ');
    is_first = false;
  }
  if (strip_ == TokenizerRules::Strip::one_space && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

}  // namespace axonn
