#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace axonn {

// A text that comes in pieces of bytes, such as those of tokens, and goes out in whole characters,
// up to the first of some words that end it. The beginning of a character or of such a word is held
// back.
class StreamedText {
 public:
  explicit StreamedText(std::vector<std::string> stops = {});

  // Returns the part that can go out now. Bytes that are no UTF-8 go out as they are.
  std::string add(std::string_view piece);
  std::string finish();                              // the rest, which was held back
  bool ended() const { return ended_; }              // a stop has come: nothing goes out any more
  const std::string& text() const { return text_; }  // all that has gone out

 private:
  std::string out(size_t bytes);

  std::vector<std::string> stops_;
  std::string held_, text_;
  bool ended_ = false;
};

}  // namespace axonn
