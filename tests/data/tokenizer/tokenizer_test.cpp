#include "axonn/data/tokenizer/tokenizer.hpp"

#include "axonn/core/utf8.hpp"

#include <gtest/gtest.h>

#include "support/scratch.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

TEST(Tokenizer, BytesTakeAnyData) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  const auto tokens = Tokenizer::bytes().encode(all);
  EXPECT_EQ(tokens.front(), 0);
  EXPECT_EQ(tokens.back(), 255);
  EXPECT_EQ(Tokenizer::bytes().decode(tokens), all);
  EXPECT_EQ(Tokenizer::bytes().vocabulary_size(), 256);
}

TEST(Tokenizer, CharsAreTheDistinctCodePointsInOrder) {
  const auto tokenizer = Tokenizer::chars("béa€\nba😀");
  EXPECT_EQ(tokenizer.vocabulary_size(), 6);
  EXPECT_EQ(tokenizer.encode("\nabé€😀"), (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("😀€éab")), "😀€éab");
}

TEST(Tokenizer, ACharacterOutsideTheVocabularyIsNamedWithItsPlace) {
  const auto tokenizer = Tokenizer::chars("abé\n");
  EXPECT_EQ(test::user_error([&] { tokenizer.encode("ab\néZ"); }),
            "character 'Z' (U+005A) at byte 5 (line 2, column 2) of the text is not in the vocabulary of 4 characters");
  EXPECT_USER_ERROR(tokenizer.encode("a\t"), "(U+0009) at byte 1");
}

TEST(Tokenizer, WhatIsNotUtf8IsRefusedWithItsPlace) {
  for (const std::string bad : {"\xff", "\x80", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82",
                                "\xf8\x88\x80\x80\x80", "\xc3("}) {
    EXPECT_EQ(first_invalid_utf8("é" + bad), 2u);
    EXPECT_USER_ERROR(Tokenizer::chars("é" + bad), "not UTF-8 at byte 2", "--tokenizer bytes");
  }
  EXPECT_EQ(first_invalid_utf8("aé€😀\xf4\x8f\xbf\xbf"), std::nullopt);
}

TEST(Tokenizer, TheCheckpointKeepsIt) {
  for (const auto& tokenizer : {Tokenizer::bytes(), Tokenizer::chars("\"\\\nabcé😀")})
    EXPECT_EQ(Tokenizer::from_json(tokenizer.to_json()), tokenizer);
}

TEST(Tokenizer, BadInputIsRefused) {
  EXPECT_USER_ERROR(Tokenizer::from_json("{"), "not a tokenizer");
  EXPECT_USER_ERROR(Tokenizer::from_json(R"({"kind": "chars"})"), "needs its vocabulary");
  EXPECT_USER_ERROR(Tokenizer::from_json(R"({"kind": "words"})"), "must be one of bytes, chars");
  EXPECT_USER_ERROR(Tokenizer::chars(""), "empty");
  EXPECT_USER_ERROR(Tokenizer::bytes().decode(std::vector<int32_t>{256}), "token 256");
  EXPECT_USER_ERROR(Tokenizer::from_json(R"({"kind": "byte"})"), "did you mean 'bytes'?");
}

}  // namespace
}  // namespace axonn
