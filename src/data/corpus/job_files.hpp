#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "axonn/data/corpus/tokenize_corpus.hpp"
#include "axonn/data/shards/shard_writer.hpp"
#include "data/corpus/chunk_reader.hpp"

namespace axonn {

// How far a tokenization has come.
struct JobState {
  CorpusPlace place;
  ShardWriter::State shard;
  int64_t used_bytes = 0;                                                   // those of the files that were read
  int64_t bytes = 0, empty_documents = 0, replaced = 0, skipped_lines = 0;  // as in TokenizeSummary
  bool complete = false;                                                    // all results are whole
};

// The files of one tokenization: in the directory OUT.partial until all are whole. One process at a
// time has them.
class JobFiles {
 public:
  // `description`: what the results follow from; its "files" are a list. Begins, or with `resume`
  // goes on if there is a beginning. UserError when another process has the files, and by options.
  JobFiles(const TokenizeOptions& options, const nlohmann::ordered_json& description);

  std::optional<JobState> state() const;
  void save(const JobState& state) const;  // whole or not at all, and on the disk

  std::filesystem::path shard() const { return partial_ / "shard"; }
  std::filesystem::path tokenizer() const { return partial_ / "tokenizer"; }  // a directory, or nothing
  void write(const std::string& name, const std::string& text) const;         // whole or not at all

  // Gives all results their names, and removes the directory. May be called again after a kill.
  void publish() const;

  static constexpr const char* kSummary = "summary.json";

 private:
  // The directory, locked. Its end removes it if it holds nothing that `resume` can use.
  class Directory {
   public:
    explicit Directory(const std::filesystem::path& path);
    ~Directory();
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;

   private:
    const std::filesystem::path& path_;
    int lock_ = -1;
  };

  void begin(const TokenizeOptions& options, const nlohmann::ordered_json& description) const;
  void check_same(const nlohmann::ordered_json& description) const;
  std::filesystem::path result(const char* suffix) const;

  std::filesystem::path out_, partial_;
  std::optional<Directory> directory_;
};

}  // namespace axonn
