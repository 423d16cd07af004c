#include "data/folder/content_guess.hpp"

#include <string>

#include <gtest/gtest.h>

namespace axonn {
namespace {

using namespace std::string_literals;

std::string guess(const std::string& head) { return std::string(guess_content(head).name); }

std::string wide(const std::string& text, size_t width, size_t place) {
  std::string bytes;
  for (const char letter : text) {
    std::string group(width, '\0');
    group[place] = letter;
    bytes += group;
  }
  return bytes;
}

TEST(ContentGuess, TakesTextsForText) {
  for (const std::string& text :
       {"a"s, "\n"s, "caf\xe9"s, "\xef\xbb\xbfwith a mark"s, "\xff\xff"s, "BZ and PK are letters"s,
        "\x1b[1mbold\x1b[0m"s, "a\tb\r\n\fc"s, "<p>a part of a page"s, "version 2 of git-lfs"s, "{\"a\": 1}"s,
        "\xed\xa0\x80 a lone surrogate"s, "PAR 1"s, std::string(8192, 'x')})
    EXPECT_EQ(guess(text), "text") << text;
}

TEST(ContentGuess, KnowsWhatIsNoText) {
  for (const auto& [head, name] :
       {std::pair<std::string, const char*>{"", "empty"},
        {"\x1f\x8b\x08\0abc"s, "gzip"},
        {"\xfd"
         "7zXZ\0abc"s,
         "xz"},
        {"\x28\xb5\x2f\xfd"
         "abc",
         "zstd"},
        {"BZh91AY&SY", "bzip2"},
        {"PK\x03\x04"
         "abc",
         "zip"},
        {std::string(257, 'n') + "ustar", "tar"},
        {"\x89PNG\r\n\x1a\n", "PNG image"},
        {"\xff\xd8\xff\xe0", "JPEG image"},
        {"GIF89a", "GIF image"},
        {"RIFF1234WEBPVP8 ", "WebP image"},
        {"%PDF-1.7", "PDF"},
        {"PAR1\x15", "Parquet"},
        {"\x93NUMPY\x01", "array of numpy"},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n", "git-lfs pointer"},
        {"/annex/objects/SHA256E-s3--12.txt\n", "git-annex pointer"},
        {"<!DOCTYPE html><title>404</title>", "HTML page"},
        {"\xef\xbb\xbf \n<HTML lang=en>", "HTML page"},
        {"<?xml version=\"1.0\"?>\n<!DOCTYPE html>\n<html>", "HTML page"},
        {"a\0b"s, "binary"},
        {std::string(100, '\x01') + "text", "binary"}})
    EXPECT_EQ(guess(head), name);
}

TEST(ContentGuess, KnowsWideTextWithAndWithoutAMark) {
  const std::string text = "Das Wort, caf";
  EXPECT_EQ(guess("\xff\xfe"s + wide(text, 2, 0)), "UTF-16");
  EXPECT_EQ(guess("\xfe\xff"s + wide(text, 2, 1)), "UTF-16");
  EXPECT_EQ(guess("\xff\xfe\0\0"s + wide(text, 4, 0)), "UTF-32");
  EXPECT_EQ(guess("\0\0\xfe\xff"s + wide(text, 4, 3)), "UTF-32");
  EXPECT_EQ(guess(wide(text, 2, 0)), "UTF-16");
  EXPECT_EQ(guess(wide(text, 2, 1)), "UTF-16");
  EXPECT_EQ(guess(wide(text, 4, 0)), "UTF-32");
  EXPECT_EQ(guess(wide(text, 4, 3)), "UTF-32");
  EXPECT_NE(guess_content(wide(text, 2, 0)).cure.find("UTF-16LE"), std::string_view::npos);
}

// nanoGPT's train.bin: numbers of 16 bits, of letters or of GPT-2's tokens.
TEST(ContentGuess, TakesNumbersOfTokensForBinary) {
  std::string letters, tokens;
  for (int i = 0; i < 500; ++i) {
    letters += static_cast<char>(i * 37 % 65), letters += '\0';
    const int token = i % 3 == 0 ? 11 : i * 7919 % 50257;
    tokens += static_cast<char>(token & 255), tokens += static_cast<char>(token >> 8);
  }
  EXPECT_EQ(guess(letters), "binary");
  EXPECT_EQ(guess(tokens), "binary");
}

TEST(ContentGuess, ReadsPrefixesOfAnything) {
  for (const std::string& whole :
       {"\x1f\x8b\x08\0abc"s, "PK\x03\x04"s, "RIFF1234WEBPVP8"s, "<?xml><html"s, wide("abc", 4, 3)})
    for (size_t length = 0; length <= whole.size(); ++length) guess(whole.substr(0, length));
}

}  // namespace
}  // namespace axonn
