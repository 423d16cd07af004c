#include "axonn/core/utf8.hpp"

#include <random>

#include <gtest/gtest.h>

#include "axonn/core/error.hpp"
#include "axonn/core/json/json_depth.hpp"

namespace axonn {
namespace {

TEST(Utf8, NamesAreShownOnOneLine) {
  EXPECT_EQ(shown_name("caf\xe9"), "caf\\xE9");
  EXPECT_EQ(shown_name("a\nb\tc\x1b[2J\x7f"), "a\\x0Ab\\x09c\\x1B[2J\\x7F");
  EXPECT_EQ(shown_name("\xc2\x9b csi"), "\\xC2\\x9B csi");  // a terminal's command in one character
  EXPECT_EQ(shown_name("café 漢 😀"), "café 漢 😀");
  EXPECT_EQ(shown_name("\xed\xa0\x80"), "\\xED\\xA0\\x80");
  EXPECT_EQ(printable("a\n\tb\xff\r"), "a\n\tb\\xFF\\x0D");
}

TEST(Utf8, AnErrorsSentenceIsUtf8) {
  const UserError error("core.test", "cannot read caf\xe9");
  EXPECT_EQ(error.sentence(), "cannot read caf\\xE9");
  EXPECT_STREQ(error.what(), "[core.test] cannot read caf\\xE9");
}

TEST(Utf8, AnyBytesComeBack) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 12, ' ');
    for (char& byte : bytes)
      byte = static_cast<char>(random() % 3 == 0 ? 0xC3 - random() % 4 * 0x10 : 1 + random() % 255);
    const std::string text = to_utf8(bytes);
    EXPECT_FALSE(first_invalid_utf8(text)) << shown_name(bytes);
    EXPECT_EQ(from_utf8(text), bytes) << shown_name(bytes);
  }
  EXPECT_EQ(to_utf8("café"), "café");
  EXPECT_EQ(from_utf8(std::string("a\0", 2)), std::string("a\0", 2));  // written by nobody
}

TEST(JsonDepth, IsThatOfBracketsOutsideOfStrings) {
  EXPECT_EQ(json_depth(R"({"a": [1, {"[[[\"[[": 2}], "b": []})"), 3);
  EXPECT_EQ(json_depth("]]]]["), 0);
  EXPECT_EQ(json_depth(""), 0);
  EXPECT_TRUE(is_shallow_json(std::string(100, '[')));
  EXPECT_FALSE(is_shallow_json(std::string(101, '[')));
}

}  // namespace
}  // namespace axonn
