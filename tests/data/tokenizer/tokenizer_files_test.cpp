// Tokenizers of files, each with a few tokens. oracles_test.cpp compares real ones with other
// libraries.
#include <thread>

#include <gtest/gtest.h>

#include "axonn/data/tokenizer/tokenizer.hpp"
#include "data/tokenizer/small_tokenizers.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using Ids = std::vector<int32_t>;
using test::Json;

class TokenizerFiles : public testing::Test {
 protected:
  Tokenizer read(const Json& json) { return Tokenizer::from_files(scratch_.file("t/tokenizer.json", json.dump())); }
  // Of "ab" and the like: a is 260.
  static constexpr int32_t kSpace = 259, kA = 260, kB = 261, kAb = 262, kSpaceAb = 263;

  test::Scratch scratch_;
};

TEST_F(TokenizerFiles, ByteLevel) {
  const Tokenizer tokenizer = read(test::byte_level_json());
  EXPECT_EQ(tokenizer.kind(), TokenizerKind::files);
  EXPECT_EQ(tokenizer.vocabulary_size(), 261);
  EXPECT_EQ(tokenizer.encode("hell hell"), (Ids{258, 259}));
  EXPECT_EQ(tokenizer.encode("hel\n\xC3\xA9"), (Ids{256, 'l', '\n', 0xC3, 0xA9}));
  EXPECT_EQ(tokenizer.encode("\xFF"), (Ids{0xEF, 0xBF, 0xBD}));  // U+FFFD
  EXPECT_EQ(tokenizer.encode(""), Ids{});
  EXPECT_EQ(tokenizer.decode(Ids{258, 259, 260}), "hell hell<|endoftext|>");
  EXPECT_EQ(tokenizer.decode(Ids{260, 258, 260}, {.skip_special = true}), "hell");
  EXPECT_EQ(tokenizer.end_token(), 260);
  EXPECT_EQ(tokenizer.begin_token(), 260);
  EXPECT_EQ(tokenizer.beginning(), Ids{260});
}

TEST_F(TokenizerFiles, SpecialTokensInATextAreTextUnlessTheyAreFound) {
  const Tokenizer tokenizer = read(test::byte_level_json());
  EXPECT_EQ(tokenizer.encode("he<|endoftext|>he", {.find_special = true}), (Ids{256, 260, 256}));
  EXPECT_EQ(tokenizer.encode("he<|endoftext|>").size(), 14U);
  Json json = test::byte_level_json();
  json["added_tokens"].push_back(test::added_token(261, "he<", /*special=*/false));
  EXPECT_EQ(read(json).encode("he<|"), (Ids{261, '|'}));  // not special: always found
}

TEST_F(TokenizerFiles, TheLongestAddedTokenIsFound) {
  Json json = test::byte_level_json();
  json["added_tokens"].push_back(test::added_token(261, "<|end"));
  json["added_tokens"].push_back(test::added_token(262, "<|endoftext|>!"));
  const Tokenizer tokenizer = read(json);
  const EncodeOptions find = {.find_special = true};
  EXPECT_EQ(tokenizer.encode("<|end<|endoftext|><|endoftext|>!<|en", find), (Ids{261, 260, 262, '<', '|', 'e', 'n'}));
}

TEST_F(TokenizerFiles, AddedTokensTakeTheSpacesAroundThem) {
  Json json = test::byte_level_json(), token = test::added_token(261, "<m>");
  token["lstrip"] = token["rstrip"] = true;
  json["added_tokens"].push_back(token);
  EXPECT_EQ(read(json).encode("a \t<m>\u00A0\n<m>b", {.find_special = true}), (Ids{'a', 261, 261, 'b'}));
}

TEST_F(TokenizerFiles, NormalizedTokensAreFoundAfterNormalization) {
  Json json = test::byte_level_json(), token = test::added_token(261, "cafe\u0301", /*special=*/false);
  json["normalizer"] = {{"type", "NFC"}};
  token["normalized"] = true;
  json["added_tokens"].push_back(token);
  EXPECT_EQ(read(json).encode("xcaf\u00E9x"), (Ids{'x', 261, 'x'}));
  EXPECT_EQ(read(json).encode("e\u0301"), (Ids{0xC3, 0xA9}));
}

TEST_F(TokenizerFiles, ASpaceBeforeEachPart) {
  Json json = test::byte_level_json();
  json["pre_tokenizer"]["add_prefix_space"] = true;
  const Tokenizer tokenizer = read(json);
  EXPECT_EQ(tokenizer.encode("hell<|endoftext|>hell", {.find_special = true}), (Ids{259, 260, 259}));
  EXPECT_EQ(tokenizer.encode(" hell"), Ids{259});
}

TEST_F(TokenizerFiles, Llama2) {
  const Tokenizer tokenizer = read(test::llama2_json());
  EXPECT_EQ(tokenizer.encode("ab ab"), (Ids{kSpaceAb, kSpaceAb}));
  EXPECT_EQ(tokenizer.encode(" ab"), (Ids{kSpace, kSpaceAb}));
  EXPECT_EQ(tokenizer.encode("ba\n"), (Ids{kSpace, kB, kA, 3 + '\n'}));
  EXPECT_EQ(tokenizer.encode("ab</s>ab", {.find_special = true, .add_special = true}), (Ids{1, kSpaceAb, 2, kSpaceAb}));
  EXPECT_EQ(tokenizer.encode("", {.add_special = true}), Ids{1});
  EXPECT_EQ(tokenizer.decode(Ids{kSpaceAb, kSpaceAb}), "ab ab");
  EXPECT_EQ(tokenizer.decode(Ids{1, kSpaceAb}), "<s> ab");
  EXPECT_EQ(tokenizer.decode(Ids{1, kSpaceAb}, {.skip_special = true}), "ab");
  EXPECT_EQ(tokenizer.begin_token(), 1);
  EXPECT_EQ(tokenizer.end_token(), 2);
}

TEST_F(TokenizerFiles, StreamedTokensKeepTheirSpacesAndBytes) {
  const Tokenizer tokenizer = read(test::llama2_json());
  EXPECT_EQ(tokenizer.bytes_of(kSpaceAb), " ab");
  EXPECT_EQ(tokenizer.bytes_of(3 + 0xC3), "\xC3");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("ab \u00E9 \U0001F600")), "ab \u00E9 \U0001F600");
}

TEST_F(TokenizerFiles, MetaspaceAddsASpaceOnlyAtTheBeginning) {
  Json json = test::llama2_json();
  json["normalizer"] = nullptr;
  json["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}, {"split", false}};
  const EncodeOptions find = {.find_special = true};
  EXPECT_EQ(read(json).encode("ab</s>ab", find), (Ids{kSpaceAb, 2, kAb}));
  EXPECT_EQ(read(json).encode("</s>ab", find), (Ids{2, kAb}));
  EXPECT_EQ(read(json).encode(" ab"), Ids{kSpaceAb});  // there is a space already
  json["pre_tokenizer"]["prepend_scheme"] = "always";
  EXPECT_EQ(read(json).encode("ab</s>ab", find), (Ids{kSpaceAb, 2, kSpaceAb}));
  json["pre_tokenizer"]["prepend_scheme"] = "never";
  EXPECT_EQ(read(json).encode("ab</s>ab", find), (Ids{kAb, 2, kAb}));
}

TEST_F(TokenizerFiles, MetaspaceDecoderDropsTheSpacesOfTheFirstToken) {
  Json json = test::llama2_json();
  json["decoder"] = {{"type", "Metaspace"}, {"replacement", "\u2581"}};
  EXPECT_EQ(read(json).decode(Ids{kSpaceAb, kSpaceAb}), "ab ab");
  EXPECT_EQ(read(json).decode(Ids{kSpace, kSpaceAb}), " ab");
}

TEST_F(TokenizerFiles, SentencePieceModel) {
  const auto path = scratch_.file("m/tokenizer.model", test::sentencepiece_model());
  const Tokenizer tokenizer = Tokenizer::from_files(path);
  EXPECT_EQ(tokenizer.vocabulary_size(), 9);
  EXPECT_EQ(tokenizer.encode("ab ab"), (Ids{4, 4}));
  EXPECT_EQ(tokenizer.encode("ab[x]ab"), (Ids{4, 3, 5}));
  EXPECT_EQ(tokenizer.encode("aqqb", {.add_special = true}), (Ids{1, 6, 7, 0, 8}));
  EXPECT_EQ(tokenizer.encode("<s>", {.find_special = true}), (Ids{6, 0}));  // as SentencePiece: text
  EXPECT_EQ(tokenizer.decode(Ids{1, 4, 0, 4, 2}), "ab \u2047  ab");
  EXPECT_EQ(tokenizer.begin_token(), 1);
  EXPECT_EQ(tokenizer.end_token(), 2);
  scratch_.file("m/tokenizer_config.json", R"({"add_bos_token": false, "add_eos_token": true})");
  EXPECT_EQ(Tokenizer::from_files(scratch_ / "m").encode("ab", {.add_special = true}), (Ids{4, 2}));
}

TEST_F(TokenizerFiles, VocabularyAndMerges) {
  const Json model = test::byte_level_json()["model"];
  Json vocabulary = model["vocab"];
  vocabulary["<|endoftext|>"] = 260;
  std::string merges = "#version: 0.2\r\n";
  for (const Json& merge : model["merges"])
    merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\r\n";
  scratch_.file("v/vocab.json", vocabulary.dump());
  const auto path = scratch_.file("v/merges.txt", merges);
  for (const auto& given : {scratch_ / "v", std::filesystem::path(path), scratch_ / "v" / "vocab.json"}) {
    const Tokenizer tokenizer = Tokenizer::from_files(given);
    EXPECT_EQ(tokenizer.encode("hell hell 12<|endoftext|>", {.find_special = true}),
              (Ids{258, 259, ' ', '1', '2', 260}));
    EXPECT_EQ(tokenizer.files().size(), 2U);
  }
  scratch_.file("v/tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>",
    "bos_token": null, "added_tokens_decoder": {"261": {"content": "<|im_end|>", "special": true}}})");
  const Tokenizer qwen = Tokenizer::from_files(scratch_ / "v");
  EXPECT_EQ(qwen.encode("e\u0301<|im_end|>", {.find_special = true}), (Ids{0xC3, 0xA9, 261}));
  EXPECT_EQ(qwen.end_token(), 261);
  EXPECT_EQ(qwen.begin_token(), std::nullopt);
}

TEST_F(TokenizerFiles, RanksOfTiktoken) {
  const std::string ranks = test::ranks_of_bytes() + "YWI= 256\nYmM= 257\nYWJjZA== 258\n";  // ab, bc, abcd
  const Tokenizer tokenizer = Tokenizer::from_files(scratch_.file("gpt2.tiktoken", ranks));
  EXPECT_EQ(tokenizer.encode("abc"), (Ids{256, 'c'}));
  EXPECT_EQ(tokenizer.encode("abcd abcde"), (Ids{258, ' ', 256, 'c', 'd', 'e'}));
  EXPECT_USER_ERROR(Tokenizer::from_files(scratch_.file("my.tiktoken", ranks)), "its name must: gpt2");
  EXPECT_USER_ERROR(Tokenizer::from_files(scratch_.file("tokenizer.model", ranks)), "but ranks of tiktoken");
  EXPECT_USER_ERROR(Tokenizer::from_files(scratch_.file("qwen.tiktoken", "YWI= 0\n")), "no token for the byte 0");
  EXPECT_USER_ERROR(Tokenizer::from_files(scratch_.file("qwen.tiktoken", "YWI= 0\nYW 1\n")), "qwen.tiktoken:2");
}

TEST_F(TokenizerFiles, AConfigNamesTheEndsOfAText) {
  scratch_.file("d/tokenizer.json", test::byte_level_json().dump());
  scratch_.file("d/tokenizer_config.json", R"({"bos_token": null, "eos_token": {"content": "<|endoftext|>"}})");
  const Tokenizer tokenizer = Tokenizer::from_files(scratch_ / "d");
  EXPECT_EQ(tokenizer.begin_token(), std::nullopt);
  EXPECT_EQ(tokenizer.end_token(), 260);
  EXPECT_EQ(tokenizer.files().size(), 2U);
  scratch_.file("d/tokenizer_config.json", R"({"eos_token": "<end>"})");
  EXPECT_USER_ERROR(Tokenizer::from_files(scratch_ / "d"), "tokenizer_config.json names the token '<end>'");
}

TEST_F(TokenizerFiles, AreEqualIfTheirFilesAre) {
  const Tokenizer one = read(test::byte_level_json());
  EXPECT_EQ(one, Tokenizer::from_files(scratch_.file("copy/tokenizer.json", test::byte_level_json().dump())));
  EXPECT_FALSE(one == read(test::llama2_json()));
  EXPECT_FALSE(one == Tokenizer::bytes());
}

TEST_F(TokenizerFiles, AreKnownByTheirHash) {
  scratch_.file("d/tokenizer.json", test::byte_level_json().dump());
  const Tokenizer one = Tokenizer::from_files(scratch_ / "d");
  EXPECT_TRUE(Tokenizer::is_in(scratch_ / "d"));
  EXPECT_EQ(Tokenizer::from_json(one.to_json(), scratch_ / "d"), one);
  EXPECT_USER_ERROR(Tokenizer::from_json(one.to_json(), scratch_ / "none"), "none, and is not there; copy the whole");
  EXPECT_USER_ERROR(Tokenizer::from_json(one.to_json()), "is not there");
  EXPECT_USER_ERROR(Tokenizer::from_json(R"({"kind": "files"})", scratch_ / "d"), "needs their xxh64");
  scratch_.file("d/tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
  EXPECT_USER_ERROR(Tokenizer::from_json(one.to_json(), scratch_ / "d"), "holds another tokenizer than the checkpoint");
  scratch_.file("e/cl100k_base.tiktoken", "");
  EXPECT_TRUE(Tokenizer::is_in(scratch_ / "e"));
  EXPECT_FALSE(Tokenizer::is_in(scratch_ / "none"));
}

TEST_F(TokenizerFiles, ThreadsShareOne) {
  const Tokenizer tokenizer = read(test::byte_level_json());
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "hell he" + std::to_string(i);
  const Ids expected = tokenizer.encode(text);
  std::vector<std::thread> threads;
  std::vector<Ids> got(4);
  for (Ids& one : got) threads.emplace_back([&] { one = tokenizer.encode(text); });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& one : got) EXPECT_EQ(one, expected);
}

}  // namespace
}  // namespace axonn
