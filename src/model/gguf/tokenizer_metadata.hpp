#pragma once

#include <cstdint>

#include "axonn/data/tokenizer/tokenizer_table.hpp"
#include "model/gguf/gguf_file.hpp"

namespace axonn {

// The tokenizer's keys, of a network with `vocabulary` tokens: ids without a token are filled up.
// UserError for a tokenizer that llama.cpp does not have, or with more tokens.
void add_tokenizer(const TokenizerTable& table, int64_t vocabulary, GgufHeader& header);

}  // namespace axonn
