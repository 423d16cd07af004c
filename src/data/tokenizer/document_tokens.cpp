#include "data/tokenizer/document_tokens.hpp"

namespace axonn {

std::vector<int32_t> document_tokens(const Tokenizer& tokenizer, std::string_view text, const DocumentForm& form) {
  std::vector<int32_t> document =
      tokenizer.encode(text, {.find_special = form.finds_special, .add_special = form.begins});
  const auto end = tokenizer.end_token();
  if (!end) return document;
  const bool there = !document.empty() && document.back() == *end;  // the tokenizer's files may have put it there
  if (form.ends && !there) document.push_back(*end);
  if (!form.ends && there && form.begins) document.pop_back();
  return document;
}

}  // namespace axonn
