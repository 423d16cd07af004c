#include "axonn/core/philox.hpp"

#include <cmath>
#include <numbers>

namespace axonn {

std::array<uint32_t, 4> philox(uint64_t seed, uint64_t index, uint32_t step, uint32_t stream) noexcept {
  uint32_t c0 = static_cast<uint32_t>(index), c1 = static_cast<uint32_t>(index >> 32), c2 = step, c3 = stream;
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0, p1 = uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

uint32_t philox_stream(std::string_view purpose, std::string_view name) noexcept {
  uint32_t hash = 2166136261u;  // FNV-1a
  const auto mix = [&](unsigned char byte) { hash = (hash ^ byte) * 16777619u; };
  for (const char c : purpose) mix(static_cast<unsigned char>(c));
  mix(0);
  for (const char c : name) mix(static_cast<unsigned char>(c));
  return hash;
}

double to_normal(const std::array<uint32_t, 4>& words) noexcept {
  const uint64_t a = (uint64_t{words[0]} << 32 | words[1]) >> 11, b = (uint64_t{words[2]} << 32 | words[3]) >> 11;
  const double u = (static_cast<double>(a) + 1) * 0x1p-53;  // in (0, 1]: the logarithm is finite
  const double v = static_cast<double>(b) * 0x1p-53;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

}  // namespace axonn
