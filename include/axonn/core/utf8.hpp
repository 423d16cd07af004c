#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// UTF-8, and names of files, which may be any bytes.
namespace axonn {

struct CodePoint {
  char32_t value = 0;
  size_t length = 0;  // bytes; 0: not UTF-8
};

// The first code point of `text`, which is not empty. Overlong forms and surrogates are not UTF-8.
CodePoint first_code_point(std::string_view text);

// The offset of the first byte that is not valid UTF-8; nullopt when the whole text is valid.
std::optional<size_t> first_invalid_utf8(std::string_view text);

// `text` for a terminal or a log: bytes that are not UTF-8, and control characters other than a
// line break and a tab, become \xE9.
std::string printable(std::string_view text);

// The name of a file or folder for a person, on one line: as printable(), with \x0A and \x09 too.
std::string shown_name(std::string_view name);

// Any bytes without a NUL as UTF-8 for a file, and back. A byte that is not UTF-8 becomes a NUL and
// two hexadecimal digits, which JSON writes as "caf\u0000e9". UTF-8 stays as it is.
std::string to_utf8(std::string_view bytes);
std::string from_utf8(std::string_view text);

}  // namespace axonn
