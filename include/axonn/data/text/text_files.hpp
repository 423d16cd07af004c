#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "axonn/data/folder/files_read.hpp"
#include "axonn/data/tokenizer/tokenizer.hpp"

namespace axonn {

// The way in which texts follow each other.
enum class DocumentEnds : uint8_t {
  line_breaks,  // all are one text, joined by line breaks
  tokens,       // each by itself, as `gpt tokenize` writes it; like line_breaks if no token ends a text
};

// Files of text in the order of their names, as one text with a line break between two files. Its
// bytes stay in the files. No torch, no communication.
class TextFiles {
 public:
  struct File {
    std::filesystem::path path;
    int64_t begin = 0;  // its first byte in the whole text
    int64_t bytes = 0;
  };

  // `paths` are files, or directories that are read recursively, by the rule of docs/data.md: files
  // in the order of their paths; hidden ones, and those that are no text, are left out. Reads every
  // byte once. Logs what was read and left out in one line, and a warning for a named file that is
  // no text. Throws UserError if a path does not exist or cannot be read, if a named file is
  // compressed or a pointer, if there is no text, and if text is not UTF-8 with `chars` (file and
  // byte).
  static TextFiles find(const std::vector<std::string>& paths, TokenizerKind kind);
  // UserError also for a character that a tokenizer of characters lacks.
  static TextFiles find(const std::vector<std::string>& paths, const Tokenizer& tokenizer);

  const std::string& name() const { return name_; }  // the paths, for messages
  const std::vector<File>& files() const { return files_; }
  const FilesRead& read() const { return read_; }
  int64_t bytes() const { return files_.back().begin + files_.back().bytes; }  // length of the whole text
  uint64_t hash() const { return hash_; }  // xxh64 of the length and the bytes of each file

  // Bytes [begin, end) of the whole text. UserError if a file has become shorter.
  std::string text(int64_t begin, int64_t end) const;

  // Every character of the whole text at least once; empty unless they were found for `chars`.
  const std::string& characters() const { return characters_; }

 private:
  class Finder;
  TextFiles() = default;

  std::string name_;
  std::vector<File> files_;
  FilesRead read_;
  uint64_t hash_ = 0;
  std::string characters_;
};

}  // namespace axonn
