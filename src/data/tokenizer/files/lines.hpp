#pragma once

#include <cstddef>
#include <string_view>

namespace axonn {

// Calls use(line, number) for all lines of a text, without their ends, from number 1 on. Empty
// lines are left out.
template <typename Use>
void for_each_line(std::string_view text, const Use& use) {
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) use(line, number);
  }
}

}  // namespace axonn
