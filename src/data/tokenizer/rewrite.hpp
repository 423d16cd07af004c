#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace axonn {

// One change of a text before it is split into words.
struct Rewrite {
  enum class Kind : uint8_t {
    nfc,      // Unicode's Normalization Form C
    prepend,  // `to` before a text that is not empty
    replace,  // `to` in the place of each `from`, which is not empty
  };

  Kind kind = Kind::nfc;
  std::string from, to;
  // For prepend: not before a text that begins with `to`; only at the beginning of the whole text.
  bool unless_there = false, only_first = false;
};

// `text`, which is valid UTF-8, after all changes; nullopt when nothing changes. `first`: the text
// is the beginning of the whole text, not a part behind an added token.
std::optional<std::string> rewritten(std::string_view text, std::span<const Rewrite> rewrites, bool first);

}  // namespace axonn
