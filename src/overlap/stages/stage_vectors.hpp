#pragma once

// Vectors of kVectorBytes bytes, and what is written alike for every instruction set.
namespace axonn::overlap {
namespace {

using F = float __attribute__((vector_size(kVectorBytes)));
using D = double __attribute__((vector_size(kVectorBytes)));
using I = int32_t __attribute__((vector_size(kVectorBytes)));  // comparisons of F
using L = int64_t __attribute__((vector_size(kVectorBytes)));  // comparisons of D
using U = uint32_t __attribute__((vector_size(kVectorBytes)));
using UL = uint64_t __attribute__((vector_size(kVectorBytes)));
using H = uint16_t __attribute__((vector_size(kVectorBytes / 2)));

constexpr int kFloats = kVectorBytes / 4, kDoubles = kVectorBytes / 8;

template <typename To, typename From>
AXONN_INLINE To bits(From value) {
  return reinterpret_cast<To>(value);
}
// Minus zero: a plus would turn -0 into 0.
AXONN_INLINE D all(double number) { return number - D{}; }
AXONN_INLINE F all(float number) { return number - F{}; }

template <typename V>
AXONN_INLINE V load_from(const void* from) {
  V value;
  std::memcpy(&value, from, sizeof(V));
  return value;
}
template <typename V>
AXONN_INLINE void store_to(void* to, V value) {
  std::memcpy(to, &value, sizeof(V));
}

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
AXONN_INLINE F load_bf16(const void* from) { return bits<F>(__builtin_convertvector(load_from<H>(from), U) << 16); }
AXONN_INLINE void store_bf16(void* to, F x) { store_to(to, __builtin_convertvector(upper_half_of(x), H)); }
AXONN_INLINE F round_bf16(F x) { return bits<F>(upper_half_of(x) << 16); }

}  // namespace
}  // namespace axonn::overlap
