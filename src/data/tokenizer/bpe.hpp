#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizer/bpe_tables.hpp"

namespace axonn {

// Byte-pair encoding as a file describes it. Tokens are ids, none of them negative.
struct BpeRules {
  // A word begins as its bytes; otherwise as its characters.
  bool of_bytes = false;
  // The tokens that a word can consist of.
  std::vector<std::pair<std::string, int32_t>> pieces;
  std::vector<Merge> merges;
  // A word that is a piece becomes this token, without any merge.
  bool ignores_merges = false;
  // Stands for a byte or a character that is no piece. -1: nothing stands for it. Several in a row
  // become one if they fuse.
  int32_t unknown = -1;
  bool fuses_unknown = false;
  // Per byte value its token, for characters that are no piece; -1: none.
  std::array<int32_t, 256> byte_tokens = no_tokens();

  static std::array<int32_t, 256> no_tokens() {
    std::array<int32_t, 256> none{};
    none.fill(-1);
    return none;
  }
};

// Merges for vocabularies that say only which tokens come first: of every token, each cut into
// two pieces. ranks[i] belongs to pieces[i].
std::vector<Merge> merges_of_ranks(const std::vector<std::pair<std::string, int32_t>>& pieces,
                                   const std::vector<uint32_t>& ranks);

// Byte-pair encoding of words (Sennrich et al., 2016; section 3.2). Immutable: any number of
// threads may use it.
class Bpe {
 public:
  // The memory of encode(), to be used again for the next words of the same text.
  class Work {
   public:
    // `text_bytes`: how much text follows. Long texts repeat their words, which is remembered.
    explicit Work(size_t text_bytes);
    // Merges that were looked up for long words, of all words so far.
    size_t num_lookups() const { return num_lookups_; }

   private:
    friend class Bpe;
    struct Known {
      uint64_t hash = 0;
      const char* word = nullptr;
      uint32_t size = 0, count = 0;
      size_t begin = 0;  // place of its tokens in the output
    };

    std::vector<Known> known_;  // by hash; of the same slot, the last word
    std::vector<int32_t> symbols_;
    std::vector<Merged> merged_;
    std::vector<uint32_t> next_, before_;
    std::vector<uint64_t> heap_;
    size_t num_lookups_ = 0;
  };

  explicit Bpe(const BpeRules& rules);

  // Appends the tokens of a word, which is valid UTF-8. Words and tokens must stay where they are,
  // and only grow, as long as `work` lives. Time grows with n log n of the word's length. UserError
  // for a word of 4 G symbols.
  void encode(std::string_view word, Work& work, std::vector<int32_t>& tokens) const;

 private:
  void encode_part(std::string_view part, Work& work, std::vector<int32_t>& tokens) const;
  void merge(std::string_view part, Work& work) const;  // leaves the tokens in work.symbols_
  void append_symbols(std::string_view part, std::vector<int32_t>& symbols) const;
  void append_unknown(std::string_view character, std::vector<int32_t>& symbols) const;
  void merge_short(std::vector<int32_t>& symbols) const;
  void merge_long(Work& work) const;

  PieceTable pieces_;
  MergeTable merges_;
  std::vector<bool> whole_;                 // by token: whether BPE makes it of its own bytes
  std::array<int32_t, 256> first_symbols_;  // per byte, or per character of ASCII: its token or -1
  std::array<int32_t, 256> byte_tokens_;
  int32_t unknown_;
  bool of_bytes_, fuses_unknown_;
  bool cuts_at_spaces_;  // whether no merge leads from another character to U+2581
};

}  // namespace axonn
