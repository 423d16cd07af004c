#pragma once

#include <array>
#include <cstdint>
#include <string_view>

// Counter-based random numbers: Philox 4x32-10 (Salmon et al., SC'11). The same (seed, purpose,
// step, index) gives the same number on every grid. So initial values, dropout and sample order
// never depend on the rank that draws them.
namespace axonn {

// Key = seed; counter = (index 64 bits, step 32 bits, stream 32 bits).
std::array<uint32_t, 4> philox(uint64_t seed, uint64_t index, uint32_t step, uint32_t stream) noexcept;

// 32-bit hash of a purpose and a name ("initial" + "h.0.attn.qkv.weight"). The same on every
// platform.
uint32_t philox_stream(std::string_view purpose, std::string_view name) noexcept;

// Uniform in [0, 1), with 32 random bits.
inline double to_uniform(uint32_t bits) noexcept { return bits * 0x1p-32; }

// Standard normal by Box-Muller in fp64, from the four words of one block.
double to_normal(const std::array<uint32_t, 4>& words) noexcept;

}  // namespace axonn
