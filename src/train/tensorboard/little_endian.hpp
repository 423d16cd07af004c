#pragma once

#include <concepts>
#include <cstddef>
#include <string>

namespace axonn {

// Adds the bytes of a number, the least significant first.
template <std::unsigned_integral Number>
void append_little_endian(std::string& bytes, Number number) {
  for (size_t i = 0; i < sizeof number; ++i) bytes += static_cast<char>(number >> (8 * i) & 0xFF);
}

}  // namespace axonn
