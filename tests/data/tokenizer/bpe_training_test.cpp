#include "data/tokenizer/training/bpe_training.hpp"

#include <map>
#include <random>

#include "axonn/data/tokenizer/tokenizer.hpp"
#include "data/tokenizer/oracles.hpp"
#include "data/tokenizer/training/merge_search.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using Json = nlohmann::ordered_json;
using Pair = std::pair<int32_t, int32_t>;

class TrainedVocabularies : public testing::TestWithParam<const char*> {};

TEST_P(TrainedVocabularies, AreThoseOfHuggingFace) {
  AXONN_NEEDS_ORACLES();
  const std::string file = test::read(test::kOracles / GetParam() / "tokenizer.json");
  const Json expected = Json::parse(file);
  const BpeTraining training(file);
  WordCounts counts;
  training.count(test::read(test::kOracles / "train.txt"), counts);
  const std::string trained = training.tokenizer_json(counts, 1200);
  EXPECT_EQ(Json::parse(trained)["model"]["merges"], expected["model"]["merges"]);
  EXPECT_TRUE(trained == file);
}

INSTANTIATE_TEST_SUITE_P(Folders, TrainedVocabularies,
                         testing::Values("gpt2_like", "llama3_like", "qwen2_like", "smollm_like"),
                         [](const auto& one) { return std::string(one.param); });

TEST(BpeTraining, PatternsAreThoseOfTheModels) {
  AXONN_NEEDS_ORACLES();
  const std::map<WordPattern, std::string> folders = {
      {WordPattern::gpt2, "gpt2_like"}, {WordPattern::qwen2, "qwen2_like"}, {WordPattern::smollm, "smollm_like"}};
  for (const auto& [pattern, folder] : folders) {
    const BpeTraining training(pattern);
    const Json mine = Json::parse(training.tokenizer_json({}, training.fewest_tokens()));
    const Json expected = Json::parse(test::read(test::kOracles / folder / "tokenizer.json"));
    for (const auto& [key, value] : expected.items()) {
      if (key == "model") continue;
      EXPECT_EQ(mine[key], value) << folder << ' ' << key;
    }
  }
}

TEST(BpeTraining, EveryPatternMakesATokenizer) {
  const test::Scratch scratch;
  const std::string text = "It's 1234 words, WordsAndWords and caf\u00e9 12\n\n  and more words' words\r\n";
  for (const auto& [name, pattern] : Names<WordPattern>::all) {
    const BpeTraining training(pattern);
    WordCounts counts;
    training.count(text, counts);
    const auto tokenizer = Tokenizer::from_files(scratch.file("tokenizer.json", training.tokenizer_json(counts, 270)));
    EXPECT_EQ(tokenizer.vocabulary_size(), 270) << name;
    EXPECT_EQ(tokenizer.end_token(), 0) << name;
    const std::vector<int32_t> ids = tokenizer.encode(text);
    EXPECT_LT(ids.size(), text.size()) << name;
    EXPECT_EQ(tokenizer.decode(ids), text) << name;
  }
}

TEST(BpeTraining, WordsDoNotReachIntoTheNextText) {
  const BpeTraining training(WordPattern::gpt2);
  WordCounts apart, joined;
  training.count("ab", apart);
  training.count("cd", apart);
  training.count("abcd", joined);
  EXPECT_EQ(apart.size(), 2U);
  EXPECT_EQ(joined.size(), 1U);
  WordCounts sum;
  sum.add(apart);
  sum.add(apart);
  EXPECT_EQ(sum.begin()->second, 2);
}

TEST(BpeTraining, SmallTextsGiveFewerTokens) {
  const BpeTraining training(WordPattern::gpt2);
  WordCounts counts;
  training.count("ababab", counts);
  const Json file = Json::parse(training.tokenizer_json(counts, 5000));
  EXPECT_EQ(file["model"]["merges"], Json::parse(R"([["a", "b"], ["ab", "ab"], ["abab", "ab"]])"));
  EXPECT_EQ(file["model"]["vocab"].size(), 260U);
  EXPECT_USER_ERROR(training.tokenizer_json(counts, 256), "at least 257 tokens", "got 256");
  EXPECT_EQ(Json::parse(training.tokenizer_json({}, 257))["model"]["vocab"].size(), 257U);
}

// The definition, slowly: counts all pairs anew for each merge.
std::vector<Pair> merges_by_definition(std::vector<CountedWord> words, std::vector<std::string>& tokens, size_t most) {
  std::vector<Pair> merges;
  while (tokens.size() < most) {
    std::map<Pair, int64_t> counts;
    for (const auto& [ids, count] : words)
      for (size_t i = 0; i + 1 < ids.size(); ++i) counts[{ids[i], ids[i + 1]}] += count;
    if (counts.empty()) break;
    const Pair best = std::ranges::max_element(counts, {}, [](const auto& one) {
                        return std::tuple(one.second, -one.first.first, -one.first.second);
                      })->first;
    merges.push_back(best);
    const auto token = static_cast<int32_t>(tokens.size());
    tokens.push_back(tokens[static_cast<size_t>(best.first)] + tokens[static_cast<size_t>(best.second)]);
    for (CountedWord& word : words) {
      std::vector<int32_t> merged;
      for (size_t i = 0; i < word.ids.size(); ++i) {
        const bool here = i + 1 < word.ids.size() && Pair(word.ids[i], word.ids[i + 1]) == best;
        merged.push_back(here ? token : word.ids[i]);
        i += here ? 1 : 0;
      }
      word.ids = merged;
    }
  }
  return merges;
}

TEST(BpeTraining, RandomWordsHaveTheMergesOfTheDefinition) {
  std::mt19937 random(5);
  int whole = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<CountedWord> words(1 + random() % 20);
    for (CountedWord& word : words) {
      word.count = 1 + static_cast<int64_t>(random() % 5);
      word.ids.resize(random() % 12);
      for (int32_t& id : word.ids) id = static_cast<int32_t>(random() % 3);
    }
    std::vector<std::string> mine = {"a", "b", "c"}, expected = mine;
    const std::vector<FoundMerge> merges = search_merges(words, mine, 40);
    const std::vector<Pair> by_definition = merges_by_definition(words, expected, 40);
    // The definition ends where one text is made in two ways; BpeTrainer goes on with one token.
    std::vector<std::string> distinct;
    for (const std::string& text : expected)
      if (std::ranges::count(distinct, text) > 0)
        break;
      else
        distinct.push_back(text);
    whole += distinct == expected;
    ASSERT_GE(mine.size(), distinct.size());
    mine.resize(distinct.size());
    EXPECT_EQ(mine, distinct) << round;
    for (size_t i = 0; i + 3 < distinct.size(); ++i)
      EXPECT_EQ(Pair(merges[i].left, merges[i].right), by_definition[i]) << round << ' ' << i;
  }
  EXPECT_GT(whole, 20);
}

}  // namespace
}  // namespace axonn
