#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "axonn/data/shards/shard_format.hpp"

namespace axonn {

// Writes a file of tokens, document after document: PREFIX.bin, and PREFIX.idx of Megatron's, where
// each document is one sequence. Until finish() the files are not valid: TokenShard refuses those
// with a header. Memory does not grow with what is written. BackendError if the disk is full.
class ShardWriter {
 public:
  // How much has been written.
  struct State {
    int64_t documents = 0, tokens = 0;
    // xxh64 of all tokens as 32-bit numbers, little-endian: the same for every format.
    uint64_t hash = 0xef46db3751d8e999;
  };

  // Makes new files. UserError for a vocabulary that the format cannot hold.
  ShardWriter(const std::filesystem::path& prefix, ShardFormat format, int64_t vocabulary);
  // Goes on with the files of a writer that had come to `from` at a sync(); what it wrote later is
  // cut off. UserError if the files do not hold that state.
  ShardWriter(const std::filesystem::path& prefix, ShardFormat format, int64_t vocabulary, const State& from);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  // Adds a document. UserError for a token beyond the vocabulary, for a document of 2^31 tokens,
  // and when llm.c's format, whose count has 31 bits, is full.
  void append(std::span<const int32_t> document);
  State state() const;
  void sync();    // returns when all that was appended is on the disk
  void finish();  // writes header and index, and syncs; the last call

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace axonn
