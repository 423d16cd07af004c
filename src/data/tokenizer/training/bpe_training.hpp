#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "axonn/data/tokenizer/word_pattern.hpp"
#include "data/tokenizer/rewrite.hpp"
#include "data/tokenizer/splitters.hpp"

namespace axonn {

// How often each word stands in some texts.
class WordCounts {
 public:
  void add(std::string_view word, int64_t count = 1);
  void add(const WordCounts& other);
  auto begin() const { return counts_.begin(); }
  auto end() const { return counts_.end(); }
  size_t size() const { return counts_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view word) const;
  };
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> counts_;
};

// Learns a tokenizer of byte-level BPE. Each text is split into words by itself, so no word reaches
// from a text to the next. Immutable: any number of threads may count words.
class BpeTraining {
 public:
  // A tokenizer whose first token, <|endoftext|>, ends a document.
  explicit BpeTraining(WordPattern pattern);
  // `like`: a tokenizer.json whose vocabulary and merges do not count. Its added tokens come first.
  explicit BpeTraining(const std::string& like);

  void count(std::string_view text, WordCounts& counts) const;  // valid UTF-8

  // The fewest tokens of a vocabulary: the added ones and 256 bytes.
  int64_t fewest_tokens() const;
  // A tokenizer.json of at most `vocabulary` tokens: the added ones, 256 bytes in the order of
  // their letters, then one per merge, as Hugging Face's BpeTrainer finds them. Fewer if the words
  // have no further pairs. UserError for a vocabulary below fewest_tokens().
  std::string tokenizer_json(const WordCounts& counts, int64_t vocabulary) const;

 private:
  std::string like_;
  std::vector<std::string> added_;
  std::vector<Rewrite> normalizers_, word_rewrites_;
  std::vector<Splitter> splitters_;
};

}  // namespace axonn
