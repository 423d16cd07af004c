#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/tokenizer/files/file_text.hpp"
#include "data/tokenizer/files/json_part.hpp"
#include "data/tokenizer/files/vocabulary.hpp"

namespace axonn {

struct ListedToken {
  AddedToken token;
  bool normalized = false;
};

// The content of tokenizer_config.json.
struct TokenizerConfig {
  std::string file;
  std::string tokenizer_class;  // such as Qwen2Tokenizer; "": not said
  // Names of the tokens that begin and end a text; "": there is none; nullopt: not said.
  std::optional<std::string> begin, end;
  std::optional<bool> adds_begin, adds_end;
  std::vector<ListedToken> added;  // for files that do not list them themselves
};

TokenizerConfig read_tokenizer_config(const FileText& file);

// Sets the tokens of the rules that begin and end a text: as the config says; else the first token
// around a text, and those of well-known names. UserError when the config names a token that the
// vocabulary does not have.
void set_text_ends(const TokenizerConfig& config, const Vocabulary& vocabulary, TokenizerRules& rules);

}  // namespace axonn
