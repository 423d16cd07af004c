#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "axonn/data/shards/shard_writer.hpp"
#include "axonn/data/text/text_files.hpp"
#include "axonn/data/tokenizer/tokenizer.hpp"

namespace axonn {

// Bytes [begin, end) of TextFiles.
struct TextPart {
  int64_t begin = 0, end = 0;
};

// The way in which texts become tokens: in parts, each by itself, so that threads and ranks divide
// the work and the tokens stay the same. A part is a document; with `bytes` it is a block, with
// `chars` a file, else the whole text. Any number of threads may use it.
class TextEncoding {
 public:
  // Both outlive it.
  TextEncoding(const TextFiles& texts, const Tokenizer& tokenizer, DocumentEnds ends);

  // In order. Their tokens, one after the other, are those of the texts.
  const std::vector<TextPart>& parts() const { return parts_; }
  std::vector<int32_t> tokens(const TextPart& part) const;

  // The parts of one of several ranks: neighbours, with about the same number of bytes for each
  // rank that has any. Perhaps none. At most kMostShares ranks, spread over all, have parts: each
  // rank opens and maps the shards of all.
  static constexpr int kMostShares = 64;
  std::span<const TextPart> share(int rank, int ranks) const;

  // Numbers that other threads may read and set during write().
  struct Progress {
    std::atomic<int64_t> bytes = 0;  // length of the texts that have become tokens
    std::atomic<bool> stop = false;  // no further part is begun
  };
  // Writes the tokens of parts that follow each other as Megatron's pair PREFIX.bin and PREFIX.idx,
  // a document for each part, or more for one of over 2^30 tokens. Errors are those of ShardWriter.
  // Memory: per thread two parts with their tokens.
  ShardWriter::State write(std::span<const TextPart> parts, const std::filesystem::path& prefix, int threads,
                           Progress& progress) const;

 private:
  const TextFiles& texts_;
  const Tokenizer& tokenizer_;
  bool documents_;  // each file ends with a token
  std::vector<TextPart> parts_;
};

// Appends tokens as documents of at most `most` each, at least one.
void append_in_pieces(ShardWriter& writer, std::span<const int32_t> tokens, size_t most);

}  // namespace axonn
