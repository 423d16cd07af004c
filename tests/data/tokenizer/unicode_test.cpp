#include <gtest/gtest.h>

#include "axonn/core/utf8.hpp"
#include "data/tokenizer/oracles.hpp"
#include "data/tokenizer/unicode/code_points.hpp"
#include "data/tokenizer/unicode/nfc.hpp"

namespace axonn {
namespace {

using nlohmann::json;

std::string nfc_of(std::string_view text) { return nfc(text).value_or(std::string(text)); }

TEST(Unicode, ClassesAreThoseOfUnicode16) {
  AXONN_NEEDS_ORACLES();
  const json classes = json::parse(test::read(test::kOracles / "unicode_16_classes.json"));
  const std::pair<const char*, uint8_t> bits[] = {{"L", kLetter}, {"N", kNumber}, {"M", kMark}, {"white", kWhite}};
  for (const auto& [name, bit] : bits) {
    std::vector<bool> expected(kCodePoints);
    for (const auto& [first, last] : classes.at(name).get<std::vector<std::pair<size_t, size_t>>>())
      for (size_t code = first; code <= last; ++code) expected[code] = true;
    for (size_t code = 0; code < kCodePoints; ++code)
      ASSERT_EQ((code_point_classes()[code] & bit) != 0, expected[code]) << name << " of " << code;
  }
}

TEST(Unicode, ValidCodePointsAreThoseOfTheCheckedReader) {
  for (char32_t code = 0; code < kCodePoints; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text;
    append_utf8(text, code);
    const CodePoint checked = first_code_point(text), quick = valid_code_point(text.data());
    ASSERT_EQ(checked.value, code);
    ASSERT_EQ(quick.value, code);
    ASSERT_EQ(quick.length, text.size());
    ASSERT_EQ(checked.length, text.size());
  }
}

TEST(Unicode, WhatIsNotUtf8IsReplacedAsPythonDoes) {
  const auto replaced = [](std::string_view bytes) {
    const ReplacedText result = replace_invalid_utf8(bytes);
    return std::pair(result.text, result.replaced);
  };
  const auto expect = [&](std::string_view bytes, const std::string& text, int64_t count) {
    EXPECT_EQ(replaced(bytes), std::pair(text, count)) << printable(bytes);
  };
  expect("", "", 0);
  expect("plain caf\u00E9 \U0001F600", "", 0);
  expect("a\x80z", "a\uFFFDz", 1);
  expect("\xC3", "\uFFFD", 1);
  expect("\xC0\xAF", "\uFFFD\uFFFD", 2);  // too long for its value
  expect("\xE4\xBD", "\uFFFD", 1);        // cut: one for all of it
  expect("\xE4\xBDz", "\uFFFDz", 1);
  expect("\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD", 3);  // a surrogate
  expect("\xF0\x9F\x98", "\uFFFD", 1);
  expect("\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD", 4);  // above U+10FFFF
  expect(
      "12345678\xFF"
      "12345678",
      "12345678\uFFFD"
      "12345678",
      1);  // behind whole words of ASCII
  expect("\u00E9\xE9\u00E9", "\u00E9\uFFFD\u00E9", 1);
}

TEST(Nfc, ComposesAndOrders) {
  EXPECT_FALSE(nfc("plain text, caf\u00E9"));
  EXPECT_FALSE(nfc(""));
  EXPECT_FALSE(nfc("\u0301"));  // a mark without a letter
  EXPECT_EQ(nfc_of("cafe\u0301!"), "caf\u00E9!");
  EXPECT_EQ(nfc_of("q\u0307\u0323"), "q\u0323\u0307");  // marks by their classes
  EXPECT_EQ(nfc_of("e\u0323\u0302"), "\u1EC7");         // two marks, one letter
  EXPECT_EQ(nfc_of("a\u0315\u0300\u05AE\u0062"), "\u00E0\u05AE\u0315b");
  EXPECT_EQ(nfc_of("\u212B \u2126 \uF900"), "\u00C5 \u03A9 \u8C48");  // singletons
  EXPECT_EQ(nfc_of("\u0958"), "\u0915\u093C");                        // never composed
  EXPECT_EQ(nfc_of("\u0344"), "\u0308\u0301");
  EXPECT_EQ(nfc_of("o\u0302\u0302x\u0301"), "\u00F4\u0302x\u0301");
}

TEST(Nfc, ComposesHangul) {
  EXPECT_EQ(nfc_of("\u1112\u1161\u11AB"), "\uD55C");
  EXPECT_EQ(nfc_of("\uD558\u11AB"), "\uD55C");
  EXPECT_FALSE(nfc("\uD55C\uAE00"));
  EXPECT_FALSE(nfc("\uD55C\u11AB"));  // it has a last consonant
}

// NFC of what NFC made is itself.
TEST(Nfc, IsStable) {
  for (char32_t code = 0; code < 0x30000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text = "a";
    append_utf8(text, code);
    const std::string once = nfc_of(text += "\u0301\u0323");
    ASSERT_FALSE(nfc(once)) << std::hex << static_cast<uint32_t>(code);
  }
}

TEST(Nfc, LeavesWhatTheOlderTablesDoNotKnow) {
  AXONN_NEEDS_ORACLES();
  const json differences = json::parse(test::read(test::kOracles / "nfc_differences.json"));
  for (const auto& [name, codes] : differences.items()) {
    if (name == "unicode") continue;
    for (const auto& code : codes) {
      std::string text = "a";
      append_utf8(text, static_cast<char32_t>(std::stoul(code.get<std::string>(), nullptr, 16)));
      EXPECT_FALSE(nfc(text + "\u0301")) << name << " " << code;
    }
  }
}

TEST(Nfc, LongRunsOfMarksTakeNoQuadraticTime) {
  std::string text = "a";
  for (int i = 0; i < 200'000; ++i) text += i % 2 == 0 ? "\u0323" : "\u0307";
  EXPECT_EQ(nfc_of(text).size(), text.size() - 1 - 2 + 3);  // a and U+0323 become U+1EA1
}

}  // namespace
}  // namespace axonn
