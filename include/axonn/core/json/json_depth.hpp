#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace axonn {

// How deep a file of JSON may nest. The library that parses it copies and writes values by
// recursion, so a million brackets would end the process.
inline constexpr int64_t kMostJsonDepth = 100;

// The deepest nesting of arrays and objects in `text`, which need not be JSON.
inline int64_t json_depth(std::string_view text) {
  int64_t depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (letter == '"')
      in_string = !in_string;
    else if (in_string)
      at += letter == '\\' ? 1 : 0;
    else if (letter == '[' || letter == '{')
      deepest = std::max(deepest, ++depth);
    else if (letter == ']' || letter == '}')
      --depth;
  }
  return deepest;
}

inline bool is_shallow_json(std::string_view text) { return json_depth(text) <= kMostJsonDepth; }

}  // namespace axonn
