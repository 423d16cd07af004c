#pragma once

// Functions by the bits (U, UL) of vectors of fp32 (F) and fp64 (D). They are also part of CUDA
// text (coconet/cuda), where a vector is one number. To be included after the vectors' types.
namespace axonn::coconet {
namespace {

AXONN_INLINE F absolute_of(F x) { return bits<F>(bits<U>(x) & 0x7fffffffu); }
AXONN_INLINE D absolute_of(D x) { return bits<D>(bits<UL>(x) & uint64_t{0x7fffffffffffffff}); }
AXONN_INLINE D with_sign_of(D size, D sign) {
  return bits<D>(bits<UL>(size) | (bits<UL>(sign) & uint64_t{0x8000000000000000}));
}

// Equal operands have the same bits, apart from zeros, of which the sign is chosen.
AXONN_INLINE F maximum_of(F a, F b) {
  return a == b ? bits<F>(bits<U>(a) & bits<U>(b)) : (((a > b) | (a != a)) ? a : b);
}
AXONN_INLINE D maximum_of(D a, D b) {
  return a == b ? bits<D>(bits<UL>(a) & bits<UL>(b)) : (((a > b) | (a != a)) ? a : b);
}
AXONN_INLINE F minimum_of(F a, F b) {
  return a == b ? bits<F>(bits<U>(a) | bits<U>(b)) : (((a < b) | (a != a)) ? a : b);
}
AXONN_INLINE D minimum_of(D a, D b) {
  return a == b ? bits<D>(bits<UL>(a) | bits<UL>(b)) : (((a < b) | (a != a)) ? a : b);
}

// bf16 is the upper half of fp32. Rounded to the nearest, ties to even; NaN becomes 0x7fc0.
AXONN_INLINE U upper_half_of(F x) {
  const U word = bits<U>(x);
  return x == x ? (word + 0x7fffu + ((word >> 16) & 1u)) >> 16 : U{} + 0x7fc0u;
}
AXONN_INLINE F round_bf16(F x) { return bits<F>(upper_half_of(x) << 16); }

// As the instructions of F16C: a NaN keeps the upper bits of its payload and becomes quiet.
AXONN_INLINE F widen_half(U half) {
  const U size = (half & 0x7fffu) << 13;
  const U finite = bits<U>(bits<F>(size) * 0x1p112f), other = size | 0x7f800000u;
  const U word = size < 0x0f800000u ? finite : size > 0x0f800000u ? other | 0x00400000u : other;
  return bits<F>(word | (half & 0x8000u) << 16);
}
AXONN_INLINE U half_word_of(F x) {
  const U word = bits<U>(x), size = word & 0x7fffffffu;
  // Numbers below 2^-14 are rounded by an addition to 1/2, whose last place is theirs.
  const U tiny = bits<U>(bits<F>(size) + 0.5f) - 0x3f000000u;
  const U usual = (size - 0x37fff001u + ((size >> 13) & 1u)) >> 13;
  const U nan = 0x7e00u | (size >> 13 & 0x3ffu);
  const U half = size < 0x38800000u ? tiny : size < 0x47800000u ? usual : size > 0x7f800000u ? nan : U{} + 0x7c00u;
  return half | (word >> 16 & 0x8000u);
}

}  // namespace
}  // namespace axonn::coconet
