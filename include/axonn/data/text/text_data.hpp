#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "axonn/data/text/text_files.hpp"
#include "axonn/data/tokenizer/tokenizer.hpp"

namespace axonn {

// Texts as tokens in memory. No torch, no communication.
class TextData {
 public:
  // UserError as TextFiles::find().
  static TextData load(const std::vector<std::string>& paths, TokenizerKind kind);
  // Uses the vocabulary of a checkpoint, or of files.
  static TextData load(const std::vector<std::string>& paths, const Tokenizer& tokenizer,
                       DocumentEnds ends = DocumentEnds::line_breaks);
  static TextData load(const TextFiles& files, const Tokenizer& tokenizer,
                       DocumentEnds ends = DocumentEnds::line_breaks);

  const Tokenizer& tokenizer() const { return tokenizer_; }
  const FilesRead& files() const { return read_; }
  std::span<const int32_t> tokens() const { return tokens_; }
  std::vector<int32_t> take_tokens() && { return std::move(tokens_); }

  // xxh64 of the tokens (32-bit, little-endian).
  uint64_t fingerprint() const;

 private:
  TextData(Tokenizer tokenizer, std::vector<int32_t> tokens, FilesRead read);

  Tokenizer tokenizer_;
  std::vector<int32_t> tokens_;
  FilesRead read_;
};

}  // namespace axonn
