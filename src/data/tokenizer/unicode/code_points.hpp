#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "axonn/core/utf8.hpp"

// Text whose UTF-8 is known to be valid, and the classes of its characters.
namespace axonn {

// Bits of a code point's classes: \p{L}, \p{N}, \p{M} and \s of Unicode 16, whether NFC may change
// it or what stands before it, and of letters \p{Lu}\p{Lt} and \p{Ll}.
inline constexpr uint8_t kLetter = 1, kNumber = 2, kMark = 4, kWhite = 8, kUnstable = 16, kUpper = 32, kLower = 64;

inline constexpr size_t kCodePoints = 0x110000;

// The classes of all code points, indexed by them. Made by the first call; of static lifetime.
const uint8_t* code_point_classes();

// The code point at `at`, which lies in valid UTF-8.
inline CodePoint valid_code_point(const char* at) {
  const auto byte = [&](size_t i) { return char32_t{static_cast<unsigned char>(at[i])}; };
  const auto tail = [&](size_t i) { return byte(i) & 0x3F; };
  if (byte(0) < 0x80) return {byte(0), 1};
  if (byte(0) < 0xE0) return {(byte(0) & 0x1F) << 6 | tail(1), 2};
  if (byte(0) < 0xF0) return {(byte(0) & 0x0F) << 12 | tail(1) << 6 | tail(2), 3};
  return {(byte(0) & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3), 4};
}

void append_utf8(std::string& out, char32_t value);

// Text with U+FFFD in the place of every maximal part that is not UTF-8, as Python's
// errors="replace" puts it.
struct ReplacedText {
  std::string text;
  int64_t replaced = 0;  // 0: all of it was UTF-8, and `text` is empty
};

ReplacedText replace_invalid_utf8(std::string_view text);

}  // namespace axonn
