#include "data/tokenizer/files/byte_letters.hpp"

#include "data/tokenizer/unicode/code_points.hpp"

namespace axonn {
namespace {

constexpr char32_t kFirstMoved = 0x100, kNumMoved = 68;

constexpr bool is_printable(char32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

constexpr std::array<uint8_t, kNumMoved> moved_bytes() {
  std::array<uint8_t, kNumMoved> moved{};
  size_t count = 0;
  for (char32_t byte = 0; byte < 256; ++byte)
    if (!is_printable(byte)) moved[count++] = static_cast<uint8_t>(byte);
  return moved;
}

constexpr auto kMoved = moved_bytes();

}  // namespace

std::optional<std::string> bytes_of_letters(std::string_view letters) {
  std::string bytes;
  for (size_t at = 0; at < letters.size();) {
    const auto [value, length] = valid_code_point(&letters[at]);
    const bool moved = value >= kFirstMoved && value < kFirstMoved + kNumMoved;
    if (!moved && !is_printable(value)) return std::nullopt;
    bytes += static_cast<char>(moved ? kMoved[value - kFirstMoved] : static_cast<uint8_t>(value));
    at += length;
  }
  return bytes;
}

std::string letter_of_byte(uint8_t byte) {
  std::string letter;
  for (char32_t i = 0; i < kNumMoved; ++i)
    if (kMoved[i] == byte) append_utf8(letter, kFirstMoved + i);
  if (letter.empty()) append_utf8(letter, byte);
  return letter;
}

}  // namespace axonn
