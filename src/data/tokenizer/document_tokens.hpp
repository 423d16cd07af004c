#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "axonn/data/tokenizer/tokenizer.hpp"

namespace axonn {

struct DocumentForm {
  bool begins = true;          // the tokens that the tokenizer's files put around a text
  bool ends = true;            // the token that ends a document, if the tokenizer has one
  bool finds_special = false;  // see EncodeOptions
};

// The tokens of one of many texts that follow each other.
std::vector<int32_t> document_tokens(const Tokenizer& tokenizer, std::string_view text, const DocumentForm& form);

}  // namespace axonn
