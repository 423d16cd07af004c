#pragma once

#include "data/tokenizer/files/json_part.hpp"
#include "data/tokenizer/files/vocabulary.hpp"
#include "data/tokenizer/tokenizer_model.hpp"

// The parts of tokenizer.json around its model. UserError names a part that is not known here.
namespace axonn {

// Sets `normalizers`, `word_rewrites`, `splitters` and bpe.of_bytes.
void read_normalizer(const JsonPart& file, TokenizerRules& rules);
void read_pre_tokenizer(const JsonPart& file, TokenizerRules& rules);

// Sets `before` and `after`.
void read_post_processor(const JsonPart& file, TokenizerRules& rules);

// Sets `strip`. Needs bpe.of_bytes.
TokenForm read_decoder(const JsonPart& file, TokenizerRules& rules);

}  // namespace axonn
