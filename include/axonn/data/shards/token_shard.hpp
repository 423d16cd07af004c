#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "axonn/data/shards/shard_format.hpp"

namespace axonn {

// A file of tokens, mapped into memory: only what is used is read, and all processes of a host
// share it. Immutable: any number of threads may use it; copies share the mapping. The files must
// neither shrink nor change as long as it lives.
class TokenShard {
 public:
  // `path` is a file, or for Megatron's pair also the name that both begin with. Without `format`,
  // Megatron's is known by its index, and llm.c's by its first bytes; nanoGPT's must be given.
  // Takes the same time for all sizes. UserError with the file and a cure if it is missing, torn,
  // of another format or version, or if sizes, counts and files do not fit each other. The checks
  // below read all documents or tokens.
  static TokenShard open(const std::filesystem::path& path, std::optional<ShardFormat> format = std::nullopt);

  ShardFormat format() const { return format_; }
  TokenType type() const { return type_; }
  const std::string& name() const { return name_; }  // the file of tokens, for messages
  int64_t tokens() const { return tokens_; }

  // Copies tokens [begin, begin + into.size()). UserError for a range beyond the tokens. Ids are as
  // the file has them: those of a wrong file may be beyond any vocabulary, or negative.
  void read(int64_t begin, std::span<int32_t> into) const;
  void read(int64_t begin, std::span<int64_t> into) const;

  // The documents of Megatron's; 0 for formats that have none.
  int64_t documents() const { return documents_; }
  struct Range {
    int64_t begin = 0, end = 0;  // tokens, the end excluded
  };
  // UserError for a number from documents() on, and for an index that leads beyond the tokens.
  Range document(int64_t number) const;

  // Reads all tokens, or a range. UserError with the first id that is negative or not below the
  // vocabulary, and its place.
  void check_vocabulary(int64_t vocabulary) const { check_vocabulary(vocabulary, {.begin = 0, .end = tokens_}); }
  void check_vocabulary(int64_t vocabulary, Range range) const;
  // Reads the whole index, if there is one. UserError unless its sequences follow each other from
  // the first token to the last, and its documents from the first sequence to the last.
  void check_documents() const;

 private:
  class Files;
  TokenShard(std::shared_ptr<const Files> files, ShardFormat format);
  void open_megatron();
  void open_llmc();
  void open_nanogpt();
  void check_range(int64_t begin, size_t count) const;

  std::shared_ptr<const Files> files_;
  ShardFormat format_;
  TokenType type_ = TokenType::uint16;
  std::string name_;
  int64_t tokens_ = 0, documents_ = 0;
  int64_t sequences_ = 0;  // in Megatron's index
  const std::byte* first_ = nullptr;
};

}  // namespace axonn
