#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace axonn {

// GPT-2 writes tokens of arbitrary bytes as text: bytes that are printable in Latin-1 stand for
// themselves, and the other 68 for U+0100 to U+0143, in their order.
std::optional<std::string> bytes_of_letters(std::string_view letters);  // nullopt: not all are such letters
std::string letter_of_byte(uint8_t byte);

}  // namespace axonn
