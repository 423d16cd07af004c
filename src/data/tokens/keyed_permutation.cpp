#include "data/tokens/keyed_permutation.hpp"

#include <bit>

#include "axonn/core/error.hpp"
#include "axonn/core/philox.hpp"

namespace axonn {
namespace {

constexpr uint64_t kRounds = 6;

}  // namespace

KeyedPermutation::KeyedPermutation(uint64_t size, Key key) : size_(size), key_(key) {
  AXONN_ASSERT(size >= 1 && size <= uint64_t{1} << 62, "a permutation of ", size, " numbers");
  half_bits_ = (static_cast<int>(std::bit_width(size - 1)) + 1) / 2;
}

// Half of the number is at most 31 bits, and the round stands above it.
uint64_t KeyedPermutation::mixed(uint64_t number) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = number >> half_bits_, right = number & mask;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const auto words = philox(key_.seed, round << 32 | right, key_.epoch, key_.stream);
    const uint64_t next = (left ^ words[0]) & mask;
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

uint64_t KeyedPermutation::operator()(uint64_t number) const {
  AXONN_ASSERT(number < size_, "number ", number, " of ", size_);
  do number = mixed(number);
  while (number >= size_);
  return number;
}

}  // namespace axonn
