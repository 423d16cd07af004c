#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace axonn {

// A word of the texts as the ids of its bytes, and how often it stands in them.
struct CountedWord {
  std::vector<int32_t> ids;
  int64_t count = 0;
};

struct FoundMerge {
  int32_t left, right;
};

// Searches the merges of byte-pair encoding: again and again the pair of neighbours that the texts
// have most often, of those with the same count the one with the smaller ids. `tokens` has the
// texts of all tokens so far, and grows by those of the merges, to at most `most`. The result is
// that of Hugging Face's BpeTrainer: a pair whose text is a token already becomes that token.
std::vector<FoundMerge> search_merges(std::vector<CountedWord> words, std::vector<std::string>& tokens, size_t most);

}  // namespace axonn
