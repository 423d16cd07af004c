#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/data/folder/files_read.hpp"
#include "axonn/data/tokenizer/tokenizer.hpp"

namespace axonn {

// Text as tokens: the first part for training, the rest for validation. Every rank loads all of it.
// No torch, no communication.
class TextData {
 public:
  // `paths` are files, or directories that are read recursively, by the rule of docs/data.md: files
  // in the order of their paths; hidden ones, and those that are no text, are left out. Logs what
  // was read and left out in one line, and a warning for a named file that is no text. The texts
  // are joined by a newline. The last `validation_fraction` of the tokens is for validation. Throws
  // UserError if a path does not exist or cannot be read, if a named file is compressed or a
  // pointer, if there is no text, and if text is not UTF-8 with `chars` (file and byte).
  static TextData load(const std::vector<std::string>& paths, TokenizerKind kind, double validation_fraction = 0.1);
  // Uses the vocabulary of a checkpoint.
  static TextData load(const std::vector<std::string>& paths, const Tokenizer& tokenizer,
                       double validation_fraction = 0.1);

  const Tokenizer& tokenizer() const { return tokenizer_; }
  const FilesRead& files() const { return read_; }
  std::span<const int32_t> tokens() const { return tokens_; }  // all of them
  int64_t train_tokens() const { return train_tokens_; }
  int64_t validation_tokens() const { return static_cast<int64_t>(tokens_.size()) - train_tokens_; }

  // UserError when the training part is shorter than sequence + 1 tokens.
  void check_sequence(int64_t sequence) const;

  // Training sample `number`: ids = tokens [start, start + sequence), targets = [start + 1, start +
  // sequence + 1); sequence = ids.size() = targets.size(). The start is uniform in [0, train_tokens
  // - sequence - 1). It depends only on (seed, number), so every grid draws the same samples.
  void window(uint64_t number, uint64_t seed, std::span<int64_t> ids, std::span<int64_t> targets) const;
  int64_t window_start(uint64_t number, uint64_t seed, int64_t sequence) const;

  // All non-overlapping windows of the validation part: (validation_tokens - 1) / sequence of them.
  int64_t validation_windows(int64_t sequence) const;
  void validation_window(int64_t index, std::span<int64_t> ids, std::span<int64_t> targets) const;

  // xxh64 of the tokens (32-bit, little-endian). Kept in checkpoints: resuming with other data is
  // an error.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  TextData(Tokenizer tokenizer, std::string_view text, FilesRead read, double validation_fraction);
  void copy_window(int64_t start, std::span<int64_t> ids, std::span<int64_t> targets) const;

  Tokenizer tokenizer_;
  std::vector<int32_t> tokens_;
  FilesRead read_;
  int64_t train_tokens_ = 0;
  uint64_t fingerprint_ = 0;
};

}  // namespace axonn
