#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "axonn/data/folder/files_read.hpp"
#include "axonn/data/tokenizer/tokenizer.hpp"

namespace axonn {

// The way in which texts follow each other.
enum class DocumentEnds : uint8_t {
  line_breaks,  // all are one text, joined by line breaks
  tokens,       // each by itself, as `gpt tokenize` writes it; like line_breaks if no token ends a text
};

// Texts as tokens in memory. No torch, no communication.
class TextData {
 public:
  // `paths` are files, or directories that are read recursively, by the rule of docs/data.md: files
  // in the order of their paths; hidden ones, and those that are no text, are left out. Logs what
  // was read and left out in one line, and a warning for a named file that is no text. Throws
  // UserError if a path does not exist or cannot be read, if a named file is compressed or a
  // pointer, if there is no text, and if text is not UTF-8 with `chars` (file and byte).
  static TextData load(const std::vector<std::string>& paths, TokenizerKind kind);
  // Uses the vocabulary of a checkpoint, or of files.
  static TextData load(const std::vector<std::string>& paths, const Tokenizer& tokenizer,
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
