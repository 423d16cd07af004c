#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "axonn/comm/environment.hpp"
#include "axonn/data/text/text_files.hpp"
#include "axonn/data/tokenizer/tokenizer.hpp"
#include "axonn/data/tokens/token_source.hpp"

namespace axonn {

// The tokens of a run's texts, in files of its directory: RUN/tokens/KEY, where KEY is a hash of
// the texts, the tokenizer and the way in which texts follow each other. The ranks of a job make
// them once and together, each from its own part of a text, and map them. Later starts of the run
// find them. Every rank calls each function, in the same order and with equal arguments. No other
// job uses the directory meanwhile.
class TextCache {
 public:
  // `run`: a directory that all ranks see. Files that a killed job was making are removed.
  TextCache(Environment& environment, const std::filesystem::path& run);
  ~TextCache();  // removes what was made, unless keep() was called; not collective
  TextCache(const TextCache&) = delete;
  TextCache& operator=(const TextCache&) = delete;

  // The tokens as TextData::load() gives them. Those of an earlier start are used if they are
  // whole. UserError on every rank if some rank does not see the directory; BackendError if it
  // cannot be written.
  TokenSource tokens_of(const TextFiles& texts, const Tokenizer& tokenizer, DocumentEnds ends);

  // The tokens that were made become the cache of later starts. Those of other texts go.
  void keep();

 private:
  class Making;

  bool leads() const { return environment_.rank() == 0; }

  Environment& environment_;
  std::filesystem::path directory_;
  std::map<std::string, std::filesystem::path> places_;  // folders of the tokens in use, by key
};

}  // namespace axonn
