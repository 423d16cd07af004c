#include "data/text/text_encoding.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "axonn/data/shards/shard_writer.hpp"
#include "axonn/data/shards/token_shard.hpp"
#include "axonn/data/text/text_data.hpp"
#include "data/tokenizer/small_tokenizers.hpp"
#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using Ids = std::vector<int32_t>;

class TextEncodingTest : public testing::Test {
 protected:
  TextFiles find(const std::vector<std::string>& contents, const Tokenizer& tokenizer) const {
    std::vector<std::string> paths;
    for (size_t i = 0; i < contents.size(); ++i) paths.push_back(scratch.file("text" + std::to_string(i), contents[i]));
    return TextFiles::find(paths, tokenizer);
  }
  Tokenizer small_tokenizer() const {
    scratch.file("small/tokenizer.json", test::byte_level_json().dump());
    scratch.file("small/tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
    return Tokenizer::from_files(scratch / "small");
  }

  test::Scratch scratch;
};

TEST_F(TextEncodingTest, EveryRangeOfTheWholeTextCanBeRead) {
  const std::string whole = "ab\n\ncde\n\n";
  const TextFiles texts = find({"ab", "", "cde", "", ""}, Tokenizer::bytes());
  ASSERT_EQ(texts.bytes(), std::ssize(whole));
  for (size_t begin = 0; begin <= whole.size(); ++begin)
    for (size_t end = begin; end <= whole.size(); ++end)
      EXPECT_EQ(texts.text(static_cast<int64_t>(begin), static_cast<int64_t>(end)), whole.substr(begin, end - begin));
}

TEST_F(TextEncodingTest, TheHashTellsOtherTextsAndOtherEndsOfFiles) {
  const auto hash = [&](const std::vector<std::string>& contents) { return find(contents, Tokenizer::bytes()).hash(); };
  EXPECT_EQ(hash({"ab", "c"}), hash({"ab", "c"}));
  EXPECT_NE(hash({"ab", "c"}), hash({"ab", "d"}));
  EXPECT_NE(hash({"ab", "c"}), hash({"a", "bc"}));
  EXPECT_NE(hash({"ab", "c"}), hash({"ab\nc"}));
  EXPECT_NE(hash({"a", ""}), hash({"", "a"}));
}

TEST_F(TextEncodingTest, PartsAreTheTextAndEachRankHasItsOwn) {
  const Tokenizer small = small_tokenizer();
  std::string large;
  for (int i = 0; i < 1'000'000; ++i) large += "he ";
  const std::vector<std::string> contents = {large, "", "hell", "h\xc3\xa9", "he he"};
  struct Case {
    Tokenizer tokenizer;
    DocumentEnds ends;
    size_t parts;
  };
  for (const Case& one : {Case{Tokenizer::bytes(), DocumentEnds::tokens, 3},
                          {Tokenizer::chars("hel \n\xc3\xa9"), DocumentEnds::line_breaks, 5},
                          {small, DocumentEnds::tokens, 4},
                          {small, DocumentEnds::line_breaks, 1}}) {
    const TextFiles texts = find(contents, one.tokenizer);
    const TextEncoding encoding(texts, one.tokenizer, one.ends);
    EXPECT_EQ(encoding.parts().size(), one.parts);
    const TextData whole = TextData::load(texts, one.tokenizer, one.ends);
    for (const int ranks : {1, 2, 3, 8}) {
      Ids all;
      for (int rank = 0; rank < ranks; ++rank)
        for (const TextPart& part : encoding.share(rank, ranks)) {
          const Ids tokens = encoding.tokens(part);
          all.insert(all.end(), tokens.begin(), tokens.end());
        }
      EXPECT_EQ(all, Ids(whole.tokens().begin(), whole.tokens().end())) << ranks;
    }
  }
}

TEST_F(TextEncodingTest, FewRanksOfManyHaveParts) {
  const Tokenizer small = small_tokenizer();
  const TextFiles texts = find(std::vector<std::string>(200, "hell he"), small);
  const TextEncoding encoding(texts, small, DocumentEnds::tokens);
  ASSERT_EQ(encoding.parts().size(), 200U);
  for (const int ranks : {63, 64, 65, 150, 1000, 98304}) {
    std::vector<int> having;
    int64_t end = 0;
    size_t parts = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::span<const TextPart> share = encoding.share(rank, ranks);
      if (share.empty()) continue;
      having.push_back(rank);
      parts += share.size();
      EXPECT_GE(share.front().begin, end) << "in the order of the ranks";
      end = share.back().end;
    }
    EXPECT_EQ(parts, 200U) << ranks;
    ASSERT_EQ(std::ssize(having), std::min(ranks, TextEncoding::kMostShares)) << ranks;
    EXPECT_EQ(having[having.size() / 2], static_cast<int>(having.size() / 2) * ranks / std::ssize(having)) << "spread";
  }
}

TEST_F(TextEncodingTest, TokensOfALongPartAreSeveralDocuments) {
  const Ids tokens = {5, 6, 7, 8, 9, 10, 11, 12};
  ShardWriter writer(scratch / "shard", ShardFormat::megatron, 256);
  append_in_pieces(writer, tokens, 3);
  append_in_pieces(writer, {}, 3);
  append_in_pieces(writer, tokens, 8);
  writer.finish();
  const TokenShard shard = TokenShard::open(scratch / "shard");
  EXPECT_EQ(shard.documents(), 5);
  EXPECT_EQ(shard.document(1).end, 6);
  Ids read(16);
  shard.read(0, std::span(read));
  EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), read.begin()));
  EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), read.begin() + 8));
}

// By another way than parts: the tokens of earlier versions, which checkpoints name by their hash.
TEST_F(TextEncodingTest, TheTokensAreThoseOfTheWholeText) {
  const std::vector<std::string> contents = {"hell he", "h\xc3\xa9", "", "he"};
  const std::string glued = "hell he\nh\xc3\xa9\n\nhe";
  const Tokenizer small = small_tokenizer();
  for (const Tokenizer& tokenizer : {Tokenizer::bytes(), Tokenizer::chars(glued), small}) {
    const TextData data = TextData::load(find(contents, tokenizer), tokenizer);
    EXPECT_EQ(Ids(data.tokens().begin(), data.tokens().end()), tokenizer.encode(glued));
  }
  const TextData documents = TextData::load(find(contents, small), small, DocumentEnds::tokens);
  Ids expected;
  for (const char* text : {"hell he", "h\xc3\xa9", "he"}) {
    const Ids tokens = small.encode(text);
    expected.insert(expected.end(), tokens.begin(), tokens.end());
    expected.push_back(260);
  }
  EXPECT_EQ(Ids(documents.tokens().begin(), documents.tokens().end()), expected);
}

TEST_F(TextEncodingTest, ThreadsWriteTheSameShard) {
  const Tokenizer bytes = Tokenizer::bytes();
  std::string text;
  for (int i = 0; i < 500'000; ++i) text += std::to_string(int64_t{i} * 7919 % 99991) + " ";
  const TextFiles texts = find({text}, bytes);
  const TextEncoding encoding(texts, bytes, DocumentEnds::line_breaks);
  for (const int threads : {1, 3}) {
    TextEncoding::Progress progress;
    const auto state = encoding.write(encoding.parts(), scratch / "shard", threads, progress);
    EXPECT_EQ(state.tokens, std::ssize(text));
    EXPECT_EQ(progress.bytes, std::ssize(text));
    EXPECT_EQ(state.hash, TextData::load(texts, bytes).fingerprint());
    EXPECT_EQ(TokenShard::open(scratch / "shard").tokens(), std::ssize(text));
  }
  TextEncoding::Progress stopped;
  stopped.stop = true;
  EXPECT_EQ(encoding.write(encoding.parts(), scratch / "shard", 2, stopped).tokens, 0);
}

TEST_F(TextEncodingTest, AFileThatHasBecomeShorterIsNamed) {
  const TextFiles texts = find({"some text"}, Tokenizer::bytes());
  scratch.file("text0", "some");
  EXPECT_USER_ERROR(texts.text(0, 9), "text0 ended after 4 of 9 bytes");
}

}  // namespace
}  // namespace axonn
