#pragma once

#include <array>
#include <string_view>

namespace axonn::coconet {

// The words with which lines of the text form begin.
inline constexpr std::array<std::string_view, 9> kLineWords = {"program", "groups",  "size",   "tensor",  "scalar",
                                                               "fuse",    "overlap", "return", "schedule"};

// Whether a name may be written so: at most 100 letters, digits, _ and ., from a letter or _ on,
// and no dot at the end.
bool is_word(std::string_view name);

// Whether the text form has another use for this word.
bool is_reserved(std::string_view name);

}  // namespace axonn::coconet
