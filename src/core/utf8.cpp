#include "axonn/core/utf8.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace axonn {
namespace {

std::string hex(unsigned char byte, const char* digits) { return {digits[byte >> 4], digits[byte & 15]}; }

std::string escaped(std::string_view text, std::string_view fine) {
  std::string line;
  for (size_t at = 0; at < text.size();) {
    const auto [value, length] = first_code_point(text.substr(at));
    const bool control = value < 0x20 || (value >= 0x7F && value < 0xA0);  // C0, DEL, C1
    if (length == 0 || (control && fine.find(text[at]) == std::string_view::npos)) {
      for (const char byte : text.substr(at, std::max<size_t>(length, 1)))
        line += "\\x" + hex(static_cast<unsigned char>(byte), "0123456789ABCDEF");
    } else {
      line += text.substr(at, length);
    }
    at += std::max<size_t>(length, 1);
  }
  return line;
}

int digit_of(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

}  // namespace

CodePoint first_code_point(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1};
  const size_t length = first >= 0xF0 && first < 0xF8   ? 4
                        : first >= 0xE0 && first < 0xF0 ? 3
                        : first >= 0xC0 && first < 0xE0 ? 2
                                                        : 0;
  if (length == 0 || length > text.size()) return {};
  char32_t value = first & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3Fu);
  }
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800 && value < 0xE000;
  if (value < kLeast[length] || value > 0x10FFFF || surrogate) return {};
  return {value, length};
}

std::optional<size_t> first_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = first_code_point(text.substr(at)).length;
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

std::string printable(std::string_view text) { return escaped(text, "\n\t"); }

std::string shown_name(std::string_view name) { return escaped(name, ""); }

std::string to_utf8(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = first_code_point(bytes.substr(at)).length;
    if (length == 0)
      text += '\0' + hex(static_cast<unsigned char>(bytes[at]), "0123456789abcdef");
    else
      text += bytes.substr(at, length);
    at += std::max<size_t>(length, 1);
  }
  return text;
}

std::string from_utf8(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size(); ++at) {
    const int high = at + 2 < text.size() ? digit_of(text[at + 1]) : -1;
    const int low = high >= 0 ? digit_of(text[at + 2]) : -1;
    if (text[at] != '\0' || low < 0) {
      bytes += text[at];
      continue;
    }
    bytes += static_cast<char>(high * 16 + low);
    at += 2;
  }
  return bytes;
}

}  // namespace axonn
