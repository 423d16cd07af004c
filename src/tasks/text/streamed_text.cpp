#include "axonn/tasks/text/streamed_text.hpp"

#include <algorithm>
#include <utility>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

// Bytes at the end of `text` that begin a character of UTF-8 and lack its rest.
size_t begun_character(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;  // not the first byte of a character
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

// Bytes at the end of `text` that are the beginning of `word`.
size_t begun_word(std::string_view text, std::string_view word) {
  size_t length = std::min(text.size(), word.size() - 1);
  while (length > 0 && text.substr(text.size() - length) != word.substr(0, length)) --length;
  return length;
}

}  // namespace

StreamedText::StreamedText(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_)
    AXONN_CHECK(!stop.empty(), "tasks.streamed_text", "--stop must not be an empty word");
}

std::string StreamedText::out(size_t bytes) {
  std::string some = held_.substr(0, bytes);
  held_.erase(0, bytes);
  text_ += some;
  return some;
}

std::string StreamedText::add(std::string_view piece) {
  if (ended_) return "";
  held_ += piece;
  size_t first = std::string::npos, begun = begun_character(held_);
  for (const std::string& stop : stops_) {
    first = std::min(first, held_.find(stop));
    begun = std::max(begun, begun_word(held_, stop));
  }
  if (first == std::string::npos) return out(held_.size() - begun);
  ended_ = true;
  return out(first);
}

std::string StreamedText::finish() { return ended_ ? "" : out(held_.size()); }

}  // namespace axonn
