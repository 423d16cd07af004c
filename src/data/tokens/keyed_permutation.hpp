#pragma once

#include <cstdint>

namespace axonn {

// A permutation of 0 .. size - 1 that follows from a key, without a table: a Feistel network with
// Philox as its function, over the least power of four that holds `size`. A result beyond `size` is
// permuted again, which ends because the cycle began below it (Black and Rogaway, CT-RSA 2002).
class KeyedPermutation {
 public:
  struct Key {
    uint64_t seed = 0;
    uint32_t epoch = 0, stream = 0;
  };
  KeyedPermutation(uint64_t size, Key key);

  uint64_t operator()(uint64_t number) const;  // number < size

 private:
  uint64_t mixed(uint64_t number) const;

  uint64_t size_;
  Key key_;
  int half_bits_ = 1;
};

}  // namespace axonn
