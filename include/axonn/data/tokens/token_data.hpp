#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "axonn/data/folder/files_read.hpp"
#include "axonn/data/text/text_files.hpp"
#include "axonn/data/tokenizer/tokenizer.hpp"
#include "axonn/data/tokens/named_data.hpp"
#include "axonn/data/tokens/sample_order.hpp"
#include "axonn/data/tokens/token_source.hpp"

namespace axonn {

// A text that has become tokens.
struct TextTokens {
  TokenSource source;
  FilesRead files;
};

struct TokenDataOptions {
  std::vector<NamedData> data;
  std::vector<NamedData> validation = {};  // empty: the end of each source of `data` is held out
  double validation_fraction = 0.1;        // a share of each source, only without `validation`
  int64_t validation_tokens = 0;           // most tokens of each source that validate; 0: no limit
  SampleOrder order = SampleOrder::epochs;
  // The tokenizer of texts and of shards. Without one, a vocabulary says that shards have ids below
  // it and that texts are refused; otherwise the vocabulary is the characters of the texts.
  std::optional<Tokenizer> tokenizer = {};
  int64_t vocabulary = 0;
  // The tokens of find_texts(); empty: TokenData::load() finds the texts, and keeps their tokens in
  // memory.
  std::vector<TextTokens> texts = {};
};

// The texts of `options`, one for each source: those of `data` together, or each by itself with
// weights, then those of `validation`. A tokenizer of their characters becomes that of `options` if
// these have neither tokenizer nor vocabulary. UserError as TextFiles::find(), for texts without a
// tokenizer, and for characters without texts.
std::vector<TextFiles> find_texts(TokenDataOptions& options);

// How texts follow each other, with samples in that order.
constexpr DocumentEnds document_ends(SampleOrder order) {
  return order == SampleOrder::drawn ? DocumentEnds::line_breaks : DocumentEnds::tokens;
}

// The tokens of a run: what it trains on, and what is held out. Texts without weights are one
// source, in the way of TextData; each shard is one, mapped.
class TokenData {
 public:
  // A source's tokens [begin, end).
  struct Range {
    TokenSource source;
    int64_t begin = 0, end = 0;

    int64_t tokens() const { return end - begin; }
  };
  // Ranges of which samples come with this weight. Without weights, all are one part.
  struct Part {
    int64_t weight = 1;
    std::vector<Range> ranges;
  };

  // UserError if there are no data, for texts as find_texts(), for shards as TokenShard::open()
  // and check_summary(), for ids beyond the vocabulary in the parts of a shard that are looked at,
  // for shards without a tokenizer or vocabulary, and if drawn samples are to come from more than
  // one source. The time does not depend on the size of shards.
  static TokenData load(const TokenDataOptions& options);

  const std::optional<Tokenizer>& tokenizer() const { return tokenizer_; }
  int64_t vocabulary() const { return vocabulary_; }  // all ids are below it
  SampleOrder order() const { return order_; }
  const std::vector<Part>& parts() const { return parts_; }
  const std::vector<Range>& held_out() const { return held_out_; }
  int64_t train_tokens() const;
  int64_t validation_tokens() const;
  const FilesRead& files() const { return files_; }  // the texts to train on

  // Says what a run trains on: xxh64 of the tokens of one text or shard (TokenSource), or of the
  // weights, sizes and fingerprints of several. Kept in checkpoints: resuming with other data is an
  // error.
  uint64_t fingerprint() const { return fingerprint_; }
  uint64_t validation_fingerprint() const { return validation_fingerprint_; }  // 0 without `validation`

 private:
  class Loading;
  TokenData() = default;

  std::optional<Tokenizer> tokenizer_;
  int64_t vocabulary_ = 0;
  SampleOrder order_ = SampleOrder::epochs;
  std::vector<Part> parts_;
  std::vector<Range> held_out_;
  FilesRead files_;
  uint64_t fingerprint_ = 0, validation_fingerprint_ = 0;
};

}  // namespace axonn
