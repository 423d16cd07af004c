#pragma once

// Vectors of kVectorBytes bytes, and what is written alike for every instruction set.
namespace axonn::coconet {
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

}  // namespace
}  // namespace axonn::coconet

#include "coconet/stages/stage_arithmetic.hpp"

namespace axonn::coconet {
namespace {

AXONN_INLINE F load_bf16(const void* from) { return bits<F>(__builtin_convertvector(load_from<H>(from), U) << 16); }
AXONN_INLINE void store_bf16(void* to, F x) { store_to(to, __builtin_convertvector(upper_half_of(x), H)); }

}  // namespace
}  // namespace axonn::coconet
