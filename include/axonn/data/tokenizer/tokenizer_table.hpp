#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace axonn {

// The vocabulary and the rules of a tokenizer's files as one table, for files of other programs.
struct TokenizerTable {
  enum class Type : uint8_t {
    normal,
    unknown,   // stands for what the vocabulary lacks
    control,   // a special token, such as the end of a text
    found,     // found in a text as a whole, without being special
    byte,      // <0x0A>: stands for one byte
    no_token,  // an id without a token; its text is made up
  };
  struct Token {
    std::string text;  // as in the files: letters of GPT-2, or U+2581 for a space
    Type type = Type::normal;
    float score = 0;  // SentencePiece's: the higher, the earlier its merge; 0: it has none
  };

  bool byte_level = false;  // GPT-2's letters stand for bytes; otherwise SentencePiece's form
  // How texts are split into words, after Hugging Face's names: "gpt2", "llama3", "qwen2", "o200k",
  // "tekken", "digit" (one by one), "digits", "metaspace"; with spaces between several.
  std::string words;
  bool ignores_merges = false;  // a word that is a token becomes it without any merge
  // Whether texts are changed before all that, other than by NFC and by SentencePiece's U+2581.
  bool changes_texts = false;
  bool adds_space = false;          // SentencePiece's: before a text
  std::vector<Token> tokens;        // by id
  std::vector<std::string> merges;  // "a b", the first one first
  std::optional<int32_t> begin, end, unknown;
  std::vector<int32_t> before, after;  // special tokens around a text
  std::string chat_template;           // Jinja, which is never run here; empty: none
};

// Reads a directory as Tokenizer::from_files() does, with its errors.
TokenizerTable read_tokenizer_table(const std::filesystem::path& directory);

}  // namespace axonn
