#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/core/names.hpp"
#include "axonn/data/shards/shard_format.hpp"
#include "axonn/data/tokenizer/word_pattern.hpp"

namespace axonn {

// The fate of a line of JSON that has no text.
enum class BadLines : uint8_t { error, skip };

template <>
struct Names<BadLines> {
  static constexpr Named<BadLines> all[] = {{"error", BadLines::error}, {"skip", BadLines::skip}};
};

struct TokenizeOptions {
  std::vector<std::string> inputs;  // files and folders; docs/data.md says which files are read
  std::filesystem::path out;        // the beginning of the names of all results

  std::string tokenizer;                    // "bytes", or a path for Tokenizer::from_files(); "": it is trained
  int64_t train_vocabulary = 0;             // the tokens of a trained tokenizer
  WordPattern pattern = WordPattern::gpt2;  // the words of a trained tokenizer

  std::string text_key = "text";
  BadLines bad_lines = BadLines::error;
  ShardFormat format = ShardFormat::megatron;
  bool adds_begin = true;      // the tokens that the tokenizer's files put around a text
  bool adds_end = true;        // the token that ends a document
  bool finds_special = false;  // special tokens that are typed in a text become these tokens

  int workers = 0;  // threads; 0: one per core that the process may use
  bool resume = false, overwrite = false;
  // The results do not depend on these.
  double seconds_between_saves = 1;  // between two states for `resume`
  // The texts that a worker takes at once. Few, so that all workers end at about the same time.
  int64_t chunk_bytes = int64_t{1} << 18;

  // Called on the calling thread after each part: the work, "counting words" or "encoding", and
  // the bytes of the files that are done, of all.
  std::function<void(std::string_view what, int64_t done, int64_t all)> progress = {};
};

struct TokenizeSummary {
  int64_t documents = 0, tokens = 0;
  int64_t bytes = 0;            // those of the documents' texts
  int64_t empty_documents = 0;  // left out
  int64_t replaced = 0;         // parts of texts that were not UTF-8, each now U+FFFD
  int64_t skipped_lines = 0;    // lines of JSON without a text
  uint64_t hash = 0;            // ShardWriter::State::hash
  int64_t vocabulary = 0;
  TokenType type = TokenType::uint16;
};

// Tokenizes texts into one shard. It writes OUT.bin, and OUT.idx of Megatron's format; OUT.json
// with the summary; and a directory OUT.tokenizer with the tokenizer's files, unless it is of
// bytes. Until all are whole they lie in a directory OUT.partial, with which `resume` goes on after
// a process has been killed. The results depend neither on the workers nor on interruptions.
//
// Memory: the trained tokenizer's distinct words, a tokenizer, and per worker some MiB or the
// longest text with its tokens. UserError for wrong options, inputs that are no text or have
// changed since the interrupted start, and for results that are there already without `overwrite`.
TokenizeSummary tokenize_corpus(const TokenizeOptions& options);

}  // namespace axonn
