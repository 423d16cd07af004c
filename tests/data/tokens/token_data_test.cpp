#include "axonn/data/tokens/token_data.hpp"

#include <filesystem>
#include <fstream>
#include <numeric>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "axonn/data/corpus/tokenize_corpus.hpp"
#include "data/shards/shard_files.hpp"
#include "data/tokenizer/small_tokenizers.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using test::Tokens;

Tokens all_of(const TokenData::Range& range) {
  Tokens ids(static_cast<size_t>(range.tokens()));
  range.source.read(range.begin, ids);
  return ids;
}

class TokenDataTest : public testing::Test {
 protected:
  static TokenData load(TokenDataOptions options) { return TokenData::load(options); }

  NamedData text(const std::string& name, const std::string& content, int64_t weight = 0) const {
    return {.path = scratch.file(name, content), .weight = weight};
  }
  NamedData llmc(const std::string& name, const Tokens& ids) const {
    return {.path = scratch.file(name, test::llmc_file(ids, 4)), .format = ShardFormat::llmc};
  }
  Tokenizer small_tokenizer() const {
    scratch.file("small/tokenizer.json", test::byte_level_json().dump());
    scratch.file("small/tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
    return Tokenizer::from_files(scratch / "small");
  }

  test::Scratch scratch;
};

TEST_F(TokenDataTest, TextsAndShardsOfTheSameTextAreTheSameTokens) {
  const std::string a = scratch.file("d/a.txt", "hell he"), b = scratch.file("d/b.txt", "well");
  scratch.file("d/c.txt", "");
  const Tokenizer tokenizer = small_tokenizer();
  for (const auto& [format, name] : {std::pair{ShardFormat::megatron, "m"}, {ShardFormat::llmc, "l"}}) {
    tokenize_corpus(
        {.inputs = {scratch / "d"}, .out = scratch / name, .tokenizer = scratch / "small", .format = format});
    const TokenData shard = load({.data = {{.path = scratch / name, .format = format}}, .tokenizer = tokenizer});
    const TokenData texts = load({.data = {{.path = a}, {.path = b}}, .tokenizer = tokenizer});
    ASSERT_EQ(texts.parts().size(), 1U);
    ASSERT_EQ(texts.parts()[0].ranges.size(), 1U);
    EXPECT_EQ(all_of(texts.parts()[0].ranges[0]), all_of(shard.parts()[0].ranges[0]));
    EXPECT_EQ(shard.files().files, 0);
    EXPECT_EQ(texts.files().files, 2);
  }
}

TEST_F(TokenDataTest, DrawnSamplesHaveTextsGluedByLineBreaks) {
  const std::string a = scratch.file("a", "hell"), b = scratch.file("b", "he");
  const Tokenizer tokenizer = small_tokenizer();
  const auto tokens = [&](SampleOrder order) {
    return all_of(
        load({.data = {{.path = a}, {.path = b}}, .validation_fraction = 0, .order = order, .tokenizer = tokenizer})
            .parts()[0]
            .ranges[0]);
  };
  EXPECT_EQ(tokens(SampleOrder::drawn), (Tokens{258, '\n', 256}));
  EXPECT_EQ(tokens(SampleOrder::epochs), (Tokens{258, 260, 256, 260}));
}

TEST_F(TokenDataTest, TheEndIsHeldOutUpToAMost) {
  Tokens ids(1000);
  std::iota(ids.begin(), ids.end(), 0);
  const NamedData shard = llmc("a", ids);
  const TokenData tenth = load({.data = {shard}, .vocabulary = 1000});
  EXPECT_EQ(tenth.train_tokens(), 900);
  EXPECT_EQ(all_of(tenth.held_out()[0]).front(), 900);
  const TokenData few = load({.data = {shard}, .validation_tokens = 30, .vocabulary = 1000});
  EXPECT_EQ(few.train_tokens(), 970);
  EXPECT_EQ(all_of(few.held_out()[0]).front(), 970);
  const TokenData other = load({.data = {shard}, .validation = {llmc("b", ids)}, .vocabulary = 1000});
  EXPECT_EQ(other.train_tokens(), 1000);
  EXPECT_EQ(other.validation_tokens(), 1000);
  const TokenData some =
      load({.data = {shard}, .validation = {llmc("b", ids)}, .validation_tokens = 30, .vocabulary = 1000});
  EXPECT_EQ(all_of(some.held_out()[0]).back(), 29);
  EXPECT_NE(other.fingerprint(), tenth.fingerprint());
  EXPECT_USER_ERROR(load({.data = {shard}, .validation_fraction = 1, .vocabulary = 1000}), "[0, 1)");
}

TEST_F(TokenDataTest, TheCharactersAreThoseOfAllTexts) {
  const TokenData data = load({.data = {text("a", "aab", 1), text("b", "acc", 2)}, .validation = {text("v", "dé")}});
  EXPECT_EQ(data.tokenizer()->kind(), TokenizerKind::chars);
  EXPECT_EQ(data.vocabulary(), 6);  // with the line break that joins texts
  EXPECT_EQ(all_of(data.parts()[1].ranges[0]), (Tokens{1, 3, 3}));
  EXPECT_EQ(all_of(data.held_out()[0]), (Tokens{4, 5}));
  EXPECT_EQ(load({.data = {text("a", "aaaaaaaaaé")}}).vocabulary(), 2);  // also of what is held out
}

TEST_F(TokenDataTest, TheFingerprintSaysWhatIsTrainedOn) {
  const NamedData a = llmc("a", {1, 2, 3}), b = llmc("b", {4, 5, 6});
  const auto print = [&](const std::vector<NamedData>& data, const std::vector<NamedData>& validation = {}) {
    return load({.data = data, .validation = validation, .vocabulary = 10}).fingerprint();
  };
  const auto weighted = [&](int64_t first, int64_t second) {
    NamedData one = a, two = b;
    one.weight = first, two.weight = second;
    return print({one, two});
  };
  EXPECT_EQ(print({a, b}), print({a, b}));
  EXPECT_NE(print({a, b}), print({b, a}));
  EXPECT_NE(print({a}), print({b}));
  EXPECT_NE(print({a}), print({a}, {b}));
  EXPECT_EQ(weighted(1, 2), weighted(1, 2));
  EXPECT_NE(weighted(1, 2), weighted(2, 1));
  EXPECT_NE(weighted(1, 1), print({a, b}));
  const uint64_t before = print({a});
  llmc("a", {1, 2, 9});  // the file has changed
  EXPECT_NE(print({a}), before);
}

TEST_F(TokenDataTest, IdsBeyondTheVocabularyAreRefusedAtTheStart) {
  const NamedData shard = llmc("a.bin", {1, 2, 300, 4});
  EXPECT_USER_ERROR(load({.data = {shard}, .vocabulary = 300}), "a.bin has id 300 as token 2", "vocabulary has 300",
                    "give the tokenizer that it was made with");
  EXPECT_USER_ERROR(load({.data = {shard}, .tokenizer = Tokenizer::bytes()}), "vocabulary has 256");
  EXPECT_EQ(load({.data = {shard}, .vocabulary = 301}).vocabulary(), 301);
}

// Too large to be read as a whole at the start.
TEST_F(TokenDataTest, IdsBeyondTheVocabularyAreRefusedWhereverTheyAreRead) {
  constexpr int64_t kTokens = 1 << 26, kBad = kTokens / 2 + 5000;
  const std::string file = scratch.file("train.bin", "");
  std::filesystem::resize_file(file, 2 * kTokens);
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(2 * kBad).write("\xff\xff", 2);
  const TokenData data = load({.data = {{.path = file, .format = ShardFormat::nanogpt}}, .vocabulary = 100});
  const TokenSource& source = data.parts()[0].ranges[0].source;
  Tokens ids(10);
  source.read(kBad - 10, ids);
  EXPECT_USER_ERROR(source.read(kBad - 9, ids), "train.bin has id 65535 as token " + std::to_string(kBad));
}

TEST_F(TokenDataTest, AShardOfAnotherTokenizerIsRefused) {
  scratch.file("d/a.txt", "hell he");
  const Tokenizer tokenizer = small_tokenizer();
  tokenize_corpus({.inputs = {scratch / "d"}, .out = scratch / "m", .tokenizer = scratch / "small"});
  tokenize_corpus({.inputs = {scratch / "d"}, .out = scratch / "b", .tokenizer = "bytes", .adds_end = false});
  const NamedData made = {.path = scratch / "m", .format = ShardFormat::megatron};
  const NamedData of_bytes = {.path = scratch / "b.bin", .format = ShardFormat::megatron};
  EXPECT_USER_ERROR(load({.data = {of_bytes}, .tokenizer = tokenizer}), "made by another tokenizer", "names bytes");
  EXPECT_USER_ERROR(load({.data = {made}, .tokenizer = Tokenizer::bytes()}), "made by another tokenizer",
                    "names files with xxh64");
  EXPECT_EQ(load({.data = {of_bytes}, .tokenizer = Tokenizer::bytes()}).vocabulary(), 256);
  test::Json other = test::byte_level_json();
  other["model"]["vocab"]["hx"] = 261;
  scratch.file("other/tokenizer.json", other.dump());
  EXPECT_USER_ERROR(load({.data = {made}, .tokenizer = Tokenizer::from_files(scratch / "other")}),
                    "made by another tokenizer");
  scratch.file("m.json", R"({"tokens": 3, "vocabulary": 261, "tokenizer": "files", "tokenizer_xxh64": ""})");
  EXPECT_USER_ERROR(load({.data = {made}, .tokenizer = tokenizer}), "its summary", "says 3", "do not belong together");
  scratch.file("m.json", "[1");  // no summary of ours
  EXPECT_GT(load({.data = {made}, .tokenizer = tokenizer}).train_tokens(), 0);
}

TEST_F(TokenDataTest, TornShardsAreRefused) {
  const test::MegatronFiles files = test::megatron_files({{1, 2, 3}}, {0}, 2);
  const std::string tokens = scratch.file("a.bin", files.tokens.substr(0, 4));
  scratch.file("a.idx", files.index);
  EXPECT_USER_ERROR(load({.data = {{.path = tokens, .format = ShardFormat::megatron}}, .vocabulary = 9}),
                    "one of them is cut short");
  EXPECT_USER_ERROR(load({.data = {llmc("l", {})}, .vocabulary = 9}), "l has no tokens");
}

TEST_F(TokenDataTest, WhatCannotBeTrainedOnIsRefused) {
  const NamedData shard = llmc("a", {1, 2, 3}), page = text("t", "text");
  EXPECT_USER_ERROR(load({}), "--data");
  EXPECT_USER_ERROR(load({.data = {shard}}), "--tokenizer chars is made from texts");
  EXPECT_USER_ERROR(load({.data = {page}, .vocabulary = 9}), "--tokenizer none trains on files of tokens only");
  EXPECT_USER_ERROR(load({.data = {shard, page}, .order = SampleOrder::drawn, .tokenizer = Tokenizer::bytes()}),
                    "--sample-order drawn takes one text or one file of tokens");
}

class TokenDataOracles : public testing::Test {};

TEST_F(TokenDataOracles, ShardsOfOthersAreTrainedOn) {
  const std::filesystem::path folder = AXONN_TOKEN_SHARDS;
  if (!std::filesystem::exists(folder / "truth.json"))
    GTEST_SKIP() << "there are no shards of others in " << folder.lexically_normal().string();
  const auto truth = nlohmann::json::parse(std::ifstream(folder / "truth.json"));
  for (const auto& [name, format] : {std::pair{"megatron_uint16", ShardFormat::megatron},
                                     {"megatron_int32", ShardFormat::megatron},
                                     {"llmc_gpt2", ShardFormat::llmc},
                                     {"llmc_llama3", ShardFormat::llmc}}) {
    const std::vector<NamedData> named = named_data({folder / name}, "--data");
    ASSERT_EQ(named.front().format, format) << name;
    Tokens expected;
    if (format == ShardFormat::llmc) expected = truth.at(name).at("tokens").get<Tokens>();
    for (const auto& sequence : truth.at(name).value("sequences", std::vector<Tokens>()))
      expected.insert(expected.end(), sequence.begin(), sequence.end());
    const TokenData data = TokenData::load({.data = named, .validation_fraction = 0, .vocabulary = 200'000});
    EXPECT_EQ(all_of(data.parts()[0].ranges[0]), expected) << name;
  }
}

}  // namespace
}  // namespace axonn
