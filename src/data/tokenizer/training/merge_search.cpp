#include "data/tokenizer/training/merge_search.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace axonn {
namespace {

using Pair = uint64_t;  // ordered as the ids of its parts

Pair pair_of(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}
int32_t left_of(Pair pair) { return static_cast<int32_t>(pair >> 32); }
int32_t right_of(Pair pair) { return static_cast<int32_t>(pair & 0xFFFFFFFF); }

struct PairHash {
  size_t operator()(Pair pair) const { return static_cast<size_t>(pair * 0x9E3779B97F4A7C15 >> 20); }
};
template <typename Value>
using PairMap = std::unordered_map<Pair, Value, PairHash>;

// A pair with the words where it was seen. Its count may have become smaller since.
struct Candidate {
  int64_t count = 0;
  Pair pair = 0;
  std::vector<uint32_t> words;

  // Whether it comes later than another.
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class Search {
 public:
  Search(std::vector<CountedWord> words, std::vector<std::string>& tokens) : words_(std::move(words)), tokens_(tokens) {
    for (size_t token = 0; token < tokens_.size(); ++token)
      token_of_.emplace(tokens_[token], static_cast<int32_t>(token));
    for (size_t word = 0; word < words_.size(); ++word) {
      const std::vector<int32_t>& ids = words_[word].ids;
      for (size_t i = 0; i + 1 < ids.size(); ++i) add(pair_of(ids[i], ids[i + 1]), word);
    }
    push_new();
  }

  std::vector<FoundMerge> run(size_t most) {
    std::vector<FoundMerge> merges;
    while (token_of_.size() < most && !heap_.empty()) {
      Candidate best = pop();
      if (const int64_t count = counts_[best.pair]; count != best.count) {
        best.count = count;
        push(std::move(best));
        continue;
      }
      if (best.count < 1) break;
      merges.push_back({left_of(best.pair), right_of(best.pair)});
      const int32_t token = token_of_pair(best.pair);
      for (const uint32_t word : best.words) merge(best.pair, token, word);
      push_new();
    }
    return merges;
  }

 private:
  void push(Candidate candidate) {
    heap_.push_back(std::move(candidate));
    std::push_heap(heap_.begin(), heap_.end());
  }
  Candidate pop() {
    std::pop_heap(heap_.begin(), heap_.end());
    Candidate best = std::move(heap_.back());
    heap_.pop_back();
    return best;
  }

  int32_t token_of_pair(Pair pair) {
    std::string text = tokens_[static_cast<size_t>(left_of(pair))] + tokens_[static_cast<size_t>(right_of(pair))];
    const auto [place, is_new] = token_of_.emplace(text, static_cast<int32_t>(tokens_.size()));
    if (is_new) tokens_.push_back(std::move(text));
    return place->second;
  }

  void add(Pair pair, size_t word) {
    counts_[pair] += words_[word].count;
    std::vector<uint32_t>& seen = new_[pair];
    if (seen.empty() || seen.back() != word) seen.push_back(static_cast<uint32_t>(word));
  }
  void remove(Pair pair, size_t word) { counts_[pair] -= words_[word].count; }

  void push_new() {
    for (auto& [pair, words] : new_)
      if (const int64_t count = counts_[pair]; count > 0) push({count, pair, std::move(words)});
    new_.clear();
  }

  void merge(Pair pair, int32_t token, size_t word) {
    std::vector<int32_t>& ids = words_[word].ids;
    size_t kept = 0;
    for (size_t i = 0; i < ids.size(); ++kept) {
      if (i + 1 == ids.size() || pair_of(ids[i], ids[i + 1]) != pair) {
        ids[kept] = ids[i++];
        continue;
      }
      if (kept > 0) {
        remove(pair_of(ids[kept - 1], ids[i]), word);
        add(pair_of(ids[kept - 1], token), word);
      }
      if (i + 2 < ids.size()) {
        remove(pair_of(ids[i + 1], ids[i + 2]), word);
        add(pair_of(token, ids[i + 2]), word);
      }
      ids[kept] = token;
      i += 2;
    }
    ids.resize(kept);
  }

  std::vector<CountedWord> words_;
  std::vector<std::string>& tokens_;
  std::unordered_map<std::string, int32_t> token_of_;
  PairMap<int64_t> counts_;
  PairMap<std::vector<uint32_t>> new_;  // seen since the last push_new()
  std::vector<Candidate> heap_;
};

}  // namespace

std::vector<FoundMerge> search_merges(std::vector<CountedWord> words, std::vector<std::string>& tokens, size_t most) {
  return Search(std::move(words), tokens).run(most);
}

}  // namespace axonn
