#include "data/tokenizer/added_tokens.hpp"

#include <algorithm>

#include "data/tokenizer/unicode/code_points.hpp"

namespace axonn {
namespace {

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

bool is_white(std::string_view text, size_t at) {
  return (code_point_classes()[valid_code_point(&text[at]).value] & kWhite) != 0;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)), nodes_(1) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    int32_t node = 0;
    for (const char letter : tokens_[i].content) {
      int32_t next = next_node(node, letter);
      if (next < 0) {
        next = static_cast<int32_t>(nodes_.size());
        nodes_[static_cast<size_t>(node)].next.emplace_back(letter, next);
        nodes_.emplace_back();
      }
      node = next;
    }
    nodes_[static_cast<size_t>(node)].token = static_cast<int32_t>(i);
    begins_[static_cast<unsigned char>(tokens_[i].content.front())] = true;
  }
}

int32_t AddedTokens::next_node(int32_t node, char letter) const {
  const auto& next = nodes_[static_cast<size_t>(node)].next;
  const auto found = std::ranges::find(next, letter, &std::pair<char, int32_t>::first);
  return found == next.end() ? -1 : found->second;
}

// The first place from `at` on where a content could begin.
size_t AddedTokens::next_begin(std::string_view text, size_t at) const {
  while (at < text.size() && !begins_[static_cast<unsigned char>(text[at])]) ++at;
  return at;
}

const AddedToken* AddedTokens::longest_at(std::string_view text, size_t at) const {
  const AddedToken* longest = nullptr;
  for (int32_t node = 0; at < text.size(); ++at) {
    node = next_node(node, text[at]);
    if (node < 0) break;
    const int32_t token = nodes_[static_cast<size_t>(node)].token;
    if (token >= 0) longest = &tokens_[static_cast<size_t>(token)];
  }
  return longest;
}

// The begin of the white space that ends at `at`, but not before `least`.
size_t AddedTokens::before_white(std::string_view text, size_t least, size_t at) {
  while (at > least) {
    size_t begin = at - 1;
    while (begin > least && is_continuation(text[begin])) --begin;
    if (!is_white(text, begin)) break;
    at = begin;
  }
  return at;
}

size_t AddedTokens::after_white(std::string_view text, size_t at) {
  while (at < text.size() && is_white(text, at)) at += valid_code_point(&text[at]).length;
  return at;
}

}  // namespace axonn
