#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "axonn/core/names.hpp"
#include "axonn/data/tokenizer/tokenizer_options.hpp"

namespace axonn {

enum class TokenizerKind : uint8_t { bytes, chars, files };

// Those that are made without files.
template <>
struct Names<TokenizerKind> {
  static constexpr Named<TokenizerKind> all[] = {{"bytes", TokenizerKind::bytes}, {"chars", TokenizerKind::chars}};
};

class TokenizerModel;

// Converts text to token ids and back. An immutable value; copies share one vocabulary, and any
// number of threads may use it.
//   bytes: 256 tokens, one per byte value; for any data.
//   chars: the vocabulary is the distinct UTF-8 code points of a text, in ascending order.
//   files: byte-pair encoding with a vocabulary of others. The ids are those of Hugging Face's
//          tokenizers, of tiktoken and of SentencePiece for the same files.
class Tokenizer {
 public:
  static Tokenizer bytes();
  static Tokenizer chars(std::string_view text);  // UserError when the text is empty or not UTF-8
  // Reads a directory or one of its files, the first of these that is there:
  //   tokenizer.json             byte-level BPE, or SentencePiece's
  //   tokenizer.model            SentencePiece's BPE
  //   vocab.json and merges.txt  byte-level BPE of GPT-2 or Qwen 2
  //   NAME.tiktoken              ranks of tiktoken; NAME says how text is split: gpt2, r50k_base,
  //                              cl100k_base, o200k_base or qwen
  // A directory's tokenizer_config.json names the tokens that begin and end a text. UserError says
  // in one sentence what is missing or broken, or which part of a file does not exist here.
  static Tokenizer from_files(const std::filesystem::path& path);
  // Whether the directory has one of these files.
  static bool is_in(const std::filesystem::path& directory);

  TokenizerKind kind() const { return kind_; }
  // All ids are below it. A vocabulary of files may have ids without a token.
  int64_t vocabulary_size() const;

  // Takes time in proportion to the text. bytes and files take any data; files read each part that
  // is not UTF-8 as U+FFFD, as Python's errors="replace" does. With chars, UserError names a
  // character outside the vocabulary, and its byte, line and column.
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // The first token of a text without a beginning: the token of files that begins a text, or ends
  // one; a line break, or the first character of a vocabulary that has none.
  std::vector<int32_t> beginning() const;
  // The text of encode() comes back, except what files cannot keep, such as the forms of Unicode.
  // Tokens that end inside a character give bytes that are not UTF-8. UserError for an id outside
  // the vocabulary.
  std::string decode(std::span<const int32_t> tokens, const DecodeOptions& options = {}) const;
  // The bytes that a token adds to a text that has begun, be they only a part of a character: for
  // texts that are shown as they come. decode() of all tokens is decode() of the first few, at
  // least one that is not skipped, and these of the others. UserError as above.
  std::string bytes_of(int32_t token) const;
  // Whether it is a special token of files, such as the end of a document. UserError as above.
  bool is_special(int32_t token) const;

  // The tokens of files that begin a text, and end a document.
  std::optional<int32_t> begin_token() const;
  std::optional<int32_t> end_token() const;
  // The files that it was read from, and the xxh64 of their content in this order. Empty and 0
  // without files.
  const std::vector<std::filesystem::path>& files() const { return files_; }
  uint64_t files_hash() const { return files_hash_; }

  // Kept in checkpoints: {"kind": "chars", "vocabulary": "\n !..."}. Of files only their hash,
  // {"kind": "files", "xxh64": "0a1b..."}: they are kept as they are, once for a run.
  std::string to_json() const;
  // `files`: the directory in which the run keeps the files. UserError if they are others than
  // those of the checkpoint.
  static Tokenizer from_json(std::string_view text, const std::filesystem::path& files = {});

  // Tokenizers of files are equal if their files have equal content.
  bool operator==(const Tokenizer& other) const {
    return kind_ == other.kind_ && code_points_ == other.code_points_ && files_hash_ == other.files_hash_;
  }

 private:
  Tokenizer(TokenizerKind kind, std::vector<char32_t> code_points);
  void check(int32_t token) const;

  TokenizerKind kind_;
  std::vector<char32_t> code_points_;  // indexed by token; empty for bytes
  std::unordered_map<char32_t, int32_t> token_of_;
  std::shared_ptr<const TokenizerModel> model_;  // only of files
  std::vector<std::filesystem::path> files_;
  uint64_t files_hash_ = 0;
};

}  // namespace axonn
