#include "data/tokenizer/unicode/code_points.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "data/tokenizer/unicode/unicode_tables.hpp"

namespace axonn {
namespace {

using Classes = std::vector<uint8_t>;

// `numbers` per range: the gap before it, its size, and what else the table has.
void set_ranges(Classes& classes, std::span<const uint32_t> ranges, size_t numbers, uint8_t bit) {
  size_t end = 0;
  for (size_t i = 0; i < ranges.size(); i += numbers) {
    const size_t begin = end + ranges[i];
    end = begin + ranges[i + 1];
    for (size_t code = begin; code < end; ++code) classes[code] |= bit;
  }
}

// A character that NFC decomposes, or that may be joined to the character before it.
void set_unstable(Classes& classes) {
  set_ranges(classes, unicode_tables::kCombiningClasses, 3, kUnstable);
  size_t code = 0;
  for (size_t i = 0; i < unicode_tables::kDecomposed.size(); i += 3)
    classes[code += unicode_tables::kDecomposed[i]] |= kUnstable;
  for (size_t i = 0; i < unicode_tables::kComposed.size(); i += 3)
    classes[unicode_tables::kComposed[i + 2]] |= kUnstable;
  for (size_t jamo = 0x1161; jamo <= 0x1175; ++jamo) classes[jamo] |= kUnstable;  // Hangul's vowels
  for (size_t jamo = 0x11A8; jamo <= 0x11C2; ++jamo) classes[jamo] |= kUnstable;  // and last consonants
}

Classes all_classes() {
  Classes classes(kCodePoints);
  set_ranges(classes, unicode_tables::kLetters, 2, kLetter);
  set_ranges(classes, unicode_tables::kUpper, 2, kUpper);
  set_ranges(classes, unicode_tables::kLower, 2, kLower);
  set_ranges(classes, unicode_tables::kNumbers, 2, kNumber);
  set_ranges(classes, unicode_tables::kMarks, 2, kMark);
  set_ranges(classes, unicode_tables::kWhite, 2, kWhite);
  set_unstable(classes);
  return classes;
}

// The first byte that is not ASCII, from `at` on.
size_t skip_ascii(std::string_view text, size_t at) {
  for (uint64_t eight = 0; at + 8 <= text.size(); at += 8) {
    std::memcpy(&eight, text.data() + at, 8);
    if ((eight & 0x8080808080808080) != 0) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

// The bytes at the beginning of `text`, which are not UTF-8, that one U+FFFD stands for: those that
// could begin a character, or one byte.
size_t maximal_part(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0xC2 || first > 0xF4) return 1;
  const size_t wanted = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  const int least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const int most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (text.size() < 2 || byte(1) < least || byte(1) > most) return 1;
  size_t length = 2;
  while (length < std::min(wanted, text.size()) && (byte(length) & 0xC0) == 0x80) ++length;
  return length;
}

}  // namespace

const uint8_t* code_point_classes() {
  static const Classes kClasses = all_classes();
  return kClasses.data();
}

void append_utf8(std::string& out, char32_t value) {
  const auto put = [&](char32_t byte) { out += static_cast<char>(static_cast<unsigned char>(byte)); };
  const auto tail = [&](int shift) { put(0x80 | (value >> shift & 0x3F)); };
  if (value < 0x80) {
    put(value);
  } else if (value < 0x800) {
    put(0xC0 | value >> 6), tail(0);
  } else if (value < 0x10000) {
    put(0xE0 | value >> 12), tail(6), tail(0);
  } else {
    put(0xF0 | value >> 18), tail(12), tail(6), tail(0);
  }
}

ReplacedText replace_invalid_utf8(std::string_view text) {
  ReplacedText result;
  size_t copied = 0;
  for (size_t at = skip_ascii(text, 0); at < text.size(); at = skip_ascii(text, at)) {
    const size_t length = first_code_point(text.substr(at)).length;
    if (length > 0) {
      at += length;
      continue;
    }
    result.text += text.substr(copied, at - copied);
    result.text += "\xEF\xBF\xBD";  // U+FFFD
    ++result.replaced;
    copied = at += maximal_part(text.substr(at));
  }
  if (result.replaced > 0) result.text += text.substr(copied);
  return result;
}

}  // namespace axonn
