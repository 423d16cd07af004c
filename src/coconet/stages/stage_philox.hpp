#pragma once

// The words of dropout. It is also a part of CUDA text (coconet/cuda), where a vector is one
// number. To be included after the vectors of an instruction set.
namespace axonn::coconet {
namespace {

// Elements 4 * b to 4 * b + 3 of the tensor have the words of Philox block b. A vector holds one
// word of each of several blocks, in 64 bits.
struct PhiloxBlocks {
  UL low, high;  // words 0 and 1, words 2 and 3
};

AXONN_INLINE PhiloxBlocks philox_blocks(UL block, uint64_t seed, uint32_t stream) {
  const UL word = UL{} + uint64_t{0xffffffff};
  UL c0 = block & word, c1 = block >> 32, c2{}, c3 = UL{} + uint64_t{stream};
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const UL p0 = multiply_words(c0, UL{} + uint64_t{0xD2511F53}), p1 = multiply_words(c2, UL{} + uint64_t{0xCD9E8D57});
    c0 = (p1 >> 32) ^ c1 ^ uint64_t { k0 };
    c2 = (p0 >> 32) ^ c3 ^ uint64_t { k1 };
    c1 = p1 & word;
    c3 = p0 & word;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0 | c1 << 32, c2 | c3 << 32};
}

}  // namespace
}  // namespace axonn::coconet
