#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace axonn {

// A text of at most size - 1 bytes, cut there, without memory of its own. It ends at the first
// zero, which is always there, so that a signal handler may read it at any time.
template <size_t size>
class FixedText {
 public:
  FixedText& operator=(std::string_view text) {
    const size_t count = std::min(text.size(), size - 1);
    std::memcpy(characters_.data(), text.data(), count);
    characters_[count] = '\0';
    return *this;
  }
  std::string_view view() const { return characters_.data(); }

 private:
  std::array<char, size> characters_{};
};

}  // namespace axonn
