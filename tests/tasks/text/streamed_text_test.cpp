#include "axonn/tasks/text/streamed_text.hpp"

#include <gtest/gtest.h>

#include "support/user_error.hpp"

namespace axonn {
namespace {

TEST(StreamedText, GoesOutInWholeCharacters) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";
  StreamedText streamed;
  std::vector<std::string> pieces;
  for (const char byte : text)
    if (const std::string some = streamed.add({&byte, 1}); !some.empty()) pieces.push_back(some);
  EXPECT_EQ(pieces, (std::vector<std::string>{"a", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "z"}));
  EXPECT_EQ(streamed.finish(), "");
  EXPECT_EQ(streamed.text(), text);
}

TEST(StreamedText, OfOtherBytesIsNotLost) {
  StreamedText streamed;
  std::string out = streamed.add("\xFF\x80 a\xF0\x9F");
  EXPECT_EQ(out, "\xFF\x80 a");
  out += streamed.finish();
  EXPECT_EQ(out, "\xFF\x80 a\xF0\x9F");
}

TEST(StreamedText, EndsBeforeTheFirstStop) {
  StreamedText streamed({"\n\n", "END"});
  EXPECT_EQ(streamed.add("one\n"), "one");
  EXPECT_EQ(streamed.add("two EN"), "\ntwo ");
  EXPECT_EQ(streamed.add("Dless"), "");
  EXPECT_TRUE(streamed.ended());
  EXPECT_EQ(streamed.add("more"), "");
  EXPECT_EQ(streamed.text(), "one\ntwo ");
  StreamedText other({"END"});
  EXPECT_EQ(other.add("the EN"), "the ");
  EXPECT_EQ(other.finish(), "EN");
  EXPECT_USER_ERROR(StreamedText({""}), "must not be an empty word");
}

}  // namespace
}  // namespace axonn
