#include "data/tokenizer/splitters.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace axonn {
namespace {

using Words = std::vector<std::string>;

Words split(std::initializer_list<Splitter> splitters, std::string_view text) {
  Words words;
  const std::vector<Splitter> all = splitters;
  for_each_word(std::span(all), text, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

TEST(Splitters, Gpt2) {
  EXPECT_EQ(split({gpt2_word}, ""), Words{});
  EXPECT_EQ(split({gpt2_word}, "I'm  here, it's 2024!\n\n  x"),
            (Words{"I", "'m", " ", " here", ",", " it", "'s", " 2024", "!", "\n\n ", " x"}));
  EXPECT_EQ(split({gpt2_word}, "'S 'll'LL'"), (Words{"'", "S", " '", "ll", "'", "LL", "'"}));
  EXPECT_EQ(split({gpt2_word}, "a \t b  "), (Words{"a", " \t", " b", "  "}));
  EXPECT_EQ(split({gpt2_word}, " "), Words{" "});
  EXPECT_EQ(split({gpt2_word}, "x\u00A0y \u0301z"), (Words{"x", "\u00A0", "y", " \u0301", "z"}));
  EXPECT_EQ(split({gpt2_word}, "\u4F60\u597D \u0663\u00BD"), (Words{"\u4F60\u597D", " \u0663\u00BD"}));
}

TEST(Splitters, Llama3) {
  EXPECT_EQ(split({llama3_word}, "I'M  here, it's 12345!\n\n  x"),
            (Words{"I", "'M", " ", " here", ",", " it", "'s", " ", "123", "45", "!\n\n", " ", " x"}));
  EXPECT_EQ(split({llama3_word}, "(a\tb) \r\n \n  c"), (Words{"(a", "\tb", ")", " \r\n \n", " ", " c"}));
  EXPECT_EQ(split({llama3_word}, "he'\u017Fs 'LLx 're"), (Words{"he", "'\u017F", "s", " '", "LLx", " '", "re"}));
  EXPECT_EQ(split({llama3_word}, "'LLx're'"), (Words{"'LL", "x", "'re", "'"}));
  EXPECT_EQ(split({llama3_word}, "\u0301a \u0301b"), (Words{"\u0301a", " \u0301", "b"}));
  EXPECT_EQ(split({llama3_word}, "x   "), (Words{"x", "   "}));
  EXPECT_EQ(split({llama3_word}, "\na"), (Words{"\n", "a"}));
}

TEST(Splitters, Qwen2TakesDigitsOneByOne) {
  EXPECT_EQ(split({qwen2_word}, "a 12\u00BD"), (Words{"a", " ", "1", "2", "\u00BD"}));
}

TEST(Splitters, O200kSplitsWordsAtTheirCapitals) {
  EXPECT_EQ(split({o200k_word}, "HelloWorld HTTPServer don'T IT'S"),
            (Words{"Hello", "World", " HTTPServer", " don'T", " IT'S"}));
  EXPECT_EQ(split({o200k_word}, "x=1234//\n\n(aB)"), (Words{"x", "=", "123", "4", "//\n\n", "(a", "B", ")"}));
  EXPECT_EQ(split({o200k_word}, "A\u4F60B \u4F60\u597DX"), (Words{"A\u4F60", "B", " \u4F60\u597D", "X"}));
  EXPECT_EQ(split({o200k_word}, "e\u0301a \u0301 \u01C5x"), (Words{"e\u0301a", " \u0301", " \u01C5x"}));
  EXPECT_EQ(split({o200k_word}, "  a\n b"), (Words{" ", " a", "\n", " b"}));
}

TEST(Splitters, TekkenHasNoContractions) {
  EXPECT_EQ(split({tekken_word}, "Don't 12"), (Words{"Don", "'t", " ", "1", "2"}));
}

TEST(Splitters, DigitsAreSplitBeforeTheWords) {
  EXPECT_EQ(split({digit_or_rest, gpt2_word}, "a  12 b"), (Words{"a", "  ", "1", "2", " b"}));
  EXPECT_EQ(split({digits_or_rest, gpt2_word}, "a  12 b"), (Words{"a", "  ", "12", " b"}));
}

TEST(Splitters, MetaspaceBeginsAWord) {
  EXPECT_EQ(split({metaspace_word}, "\u2581Hey\u2581\u2581you"), (Words{"\u2581Hey", "\u2581", "\u2581you"}));
  EXPECT_EQ(split({metaspace_word}, "Hey\u2581"), (Words{"Hey", "\u2581"}));
}

TEST(Splitters, WithoutOneTheTextIsAWord) {
  EXPECT_EQ(split({}, "a b"), Words{"a b"});
  EXPECT_EQ(split({}, ""), Words{});
}

TEST(Splitters, AreKnownByTheirPatterns) {
  constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  EXPECT_TRUE(splitter_of_pattern(kGpt2) == gpt2_word);
  EXPECT_TRUE(splitter_of_pattern(R"(\p{L}+)") == nullptr);
}

}  // namespace
}  // namespace axonn
