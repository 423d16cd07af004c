#include "data/tokenizer/bpe.hpp"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "support/fuzz.hpp"

namespace axonn {
namespace {

using Ids = std::vector<int32_t>;

Ids encode(const Bpe& bpe, std::string_view word) {
  Bpe::Work work(word.size());
  Ids ids;
  bpe.encode(word, work, ids);
  return ids;
}

// Tokens a, b, c and random merges of them.
BpeRules some_rules(fuzz::Random& random, size_t merges) {
  BpeRules rules{.of_bytes = true, .pieces = {{"a", 0}, {"b", 1}, {"c", 2}}};
  std::map<std::string, int32_t> tokens(rules.pieces.begin(), rules.pieces.end());
  for (uint32_t rank = 0; rank < merges; ++rank) {
    const auto left = rules.pieces[random.below(rules.pieces.size())],
               right = rules.pieces[random.below(rules.pieces.size())];
    const std::string joined = left.first + right.first;
    if (joined.size() > 40) continue;
    const auto [found, added] = tokens.emplace(joined, static_cast<int32_t>(tokens.size()));
    if (added) rules.pieces.emplace_back(joined, found->second);
    rules.merges.push_back({left.second, right.second, found->second, rank});
  }
  return rules;
}

// The definition: the merge of the smallest rank, leftmost, until there is none.
Ids merged_naively(const BpeRules& rules, std::string_view word) {
  std::map<std::pair<int32_t, int32_t>, Merge> merges;
  for (const Merge& merge : rules.merges) merges.insert_or_assign({merge.left, merge.right}, merge);
  Ids ids;
  for (const char letter : word) ids.push_back(letter - 'a');
  for (;;) {
    const Merge* best = nullptr;
    size_t place = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = merges.find({ids[i], ids[i + 1]});
      if (found == merges.end() || (best != nullptr && found->second.rank >= best->rank)) continue;
      best = &found->second;
      place = i;
    }
    if (best == nullptr) return ids;
    ids[place] = best->token;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(place) + 1);
  }
}

TEST(Bpe, ShortAndLongWordsAreMergedAsDefined) {
  fuzz::rounds(300, [](fuzz::Random& random) {
    const BpeRules rules = some_rules(random, random.from(0, 40));
    const Bpe bpe(rules);
    for (const size_t most : {6, 47, 48, 49, 200}) {
      std::string word(random.from(1, most), 'a');
      for (char& letter : word) letter = static_cast<char>('a' + random.below(3));
      EXPECT_EQ(encode(bpe, word), merged_naively(rules, word)) << word;
    }
  });
}

TEST(Bpe, RepeatedWordsAreTheSame) {
  fuzz::rounds(20, [](fuzz::Random& random) {
    const BpeRules rules = some_rules(random, 30);
    const Bpe bpe(rules);
    Bpe::Work work(1 << 20);
    std::vector<std::string> words(500);
    Ids ids, expected;
    for (std::string& word : words) {
      for (size_t size = random.from(1, 5); size > 0; --size) word += static_cast<char>('a' + random.below(3));
      bpe.encode(word, work, ids);
      std::ranges::copy(merged_naively(rules, word), std::back_inserter(expected));
    }
    EXPECT_EQ(ids, expected);
  });
}

TEST(Bpe, MergesOfOneRankGoFromTheLeft) {
  // ab and bc have the same rank, as pieces of the same score.
  const std::vector<std::pair<std::string, int32_t>> pieces = {{"a", 0}, {"b", 1}, {"c", 2}, {"ab", 3}, {"bc", 4}};
  const Bpe bpe({.of_bytes = true, .pieces = pieces, .merges = merges_of_ranks(pieces, {9, 9, 9, 7, 7})});
  EXPECT_EQ(encode(bpe, "abc"), (Ids{3, 2}));
  EXPECT_EQ(encode(bpe, "bcab"), (Ids{4, 3}));
}

TEST(Bpe, AWholeWordNeedsNoMergesIfTheyAreIgnored) {
  BpeRules rules{.of_bytes = true, .pieces = {{"a", 0}, {"b", 1}, {"ab", 2}}};  // nothing makes ab
  EXPECT_EQ(encode(Bpe(rules), "ab"), (Ids{0, 1}));
  rules.ignores_merges = true;
  EXPECT_EQ(encode(Bpe(rules), "ab"), Ids{2});
  EXPECT_EQ(encode(Bpe(rules), "aba"), (Ids{0, 1, 0}));
}

TEST(Bpe, UnknownCharactersBecomeBytesOrOneToken) {
  BpeRules rules{.pieces = {{"a", 0}, {"\u2581", 1}, {"\u2581a", 2}}, .merges = {{1, 0, 2, 0}}, .unknown = 3};
  EXPECT_EQ(encode(Bpe(rules), "a\u2581a\u00E9\u00E9a\u2581"), (Ids{0, 2, 3, 3, 0, 1}));
  rules.fuses_unknown = true;
  EXPECT_EQ(encode(Bpe(rules), "a\u2581a\u00E9\u00E9a\u00E9"), (Ids{0, 2, 3, 0, 3}));
  rules.byte_tokens[0xC3] = 4;  // only one of both bytes of U+00E9 has a token
  EXPECT_EQ(encode(Bpe(rules), "a\u00E9"), (Ids{0, 3}));
  rules.byte_tokens[0xA9] = 5;
  EXPECT_EQ(encode(Bpe(rules), "a\u00E9\u00EA"), (Ids{0, 4, 5, 3}));
  rules.unknown = -1;
  EXPECT_EQ(encode(Bpe(rules), "x\u00EAa"), Ids{0});
}

// A merge from a letter to a space forbids to look at the words one by one.
TEST(Bpe, MergesAcrossASpaceAreMade) {
  const BpeRules rules{.pieces = {{"a", 0}, {"\u2581", 1}, {"a\u2581", 2}, {"\u2581a", 3}},
                       .merges = {{0, 1, 2, 0}, {1, 0, 3, 1}}};
  EXPECT_EQ(encode(Bpe(rules), "\u2581a\u2581a"), (Ids{1, 2, 0}));
}

// A heap: work grows with the length, not with its square.
TEST(Bpe, AMillionLettersWithoutASpaceTakeFewLookUps) {
  std::vector<std::pair<std::string, int32_t>> pieces;
  std::vector<Merge> merges;
  for (int32_t i = 0; i < 6; ++i) pieces.emplace_back(std::string(size_t{1} << i, 'a'), i);
  for (int32_t i = 0; i < 5; ++i) merges.push_back({i, i, i + 1, static_cast<uint32_t>(i)});
  const Bpe bpe({.of_bytes = true, .pieces = pieces, .merges = merges});
  constexpr size_t kLetters = 1'000'000;
  Bpe::Work work(kLetters);
  Ids ids;
  bpe.encode(std::string(kLetters, 'a'), work, ids);
  EXPECT_EQ(ids, Ids(31250, 5));
  EXPECT_GE(work.num_lookups(), kLetters);
  EXPECT_LE(work.num_lookups(), 3 * kLetters);  // at most two more for each merge
}

}  // namespace
}  // namespace axonn
