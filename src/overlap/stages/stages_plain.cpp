// The stages without any instruction set beyond the compiler's default: 8 elements of fp32 per
// round. They are right everywhere, and fast nowhere.
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/wide_vectors.hpp"
#include "overlap/stages/stage_key.hpp"
#include "overlap/stages/stage_run.hpp"

namespace {
constexpr int kVectorBytes = 16;
}
#include "overlap/stages/stage_vectors.hpp"

namespace axonn::overlap {
namespace {

AXONN_INLINE F fma_of(F a, F b, F c) {
  for (int i = 0; i < kFloats; ++i) a[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return a;
}
AXONN_INLINE D fma_of(D a, D b, D c) {
  for (int i = 0; i < kDoubles; ++i) a[i] = __builtin_fma(a[i], b[i], c[i]);
  return a;
}
AXONN_INLINE F square_root_of(F x) {
  for (int i = 0; i < kFloats; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
}
AXONN_INLINE D square_root_of(D x) {
  for (int i = 0; i < kDoubles; ++i) x[i] = __builtin_sqrt(x[i]);
  return x;
}
AXONN_INLINE D widen_low(F x) { return D{double{x[0]}, double{x[1]}}; }
AXONN_INLINE D widen_high(F x) { return D{double{x[2]}, double{x[3]}}; }
AXONN_INLINE F narrow(D low, D high) {
  return F{static_cast<float>(low[0]), static_cast<float>(low[1]), static_cast<float>(high[0]),
           static_cast<float>(high[1])};
}

// As the instructions of F16C: a NaN keeps the upper bits of its payload and becomes quiet.
AXONN_INLINE F widen_half(U half) {
  const U size = (half & 0x7fffu) << 13;
  const U finite = bits<U>(bits<F>(size) * 0x1p112f), other = size | 0x7f800000u;
  const U word = size < 0x0f800000u ? finite : size > 0x0f800000u ? other | 0x00400000u : other;
  return bits<F>(word | (half & 0x8000u) << 16);
}
AXONN_INLINE U half_of(F x) {
  const U word = bits<U>(x), size = word & 0x7fffffffu;
  // Numbers below 2^-14 are rounded by an addition to 1/2, whose last place is theirs.
  const U tiny = bits<U>(bits<F>(size) + 0.5f) - 0x3f000000u;
  const U usual = (size - 0x37fff001u + ((size >> 13) & 1u)) >> 13;
  const U nan = 0x7e00u | (size >> 13 & 0x3ffu);
  const U half = size < 0x38800000u ? tiny : size < 0x47800000u ? usual : size > 0x7f800000u ? nan : U{} + 0x7c00u;
  return half | (word >> 16 & 0x8000u);
}
AXONN_INLINE F load_fp16(const void* from) { return widen_half(__builtin_convertvector(load_from<H>(from), U)); }
AXONN_INLINE void store_fp16(void* to, F x) { store_to(to, __builtin_convertvector(half_of(x), H)); }
AXONN_INLINE F round_fp16(F x) { return widen_half(half_of(x)); }
AXONN_INLINE UL multiply_words(UL a, UL b) { return (a & 0xffffffffu) * (b & 0xffffffffu); }

AXONN_INLINE void leave_vectors() {}

}  // namespace
}  // namespace axonn::overlap

#include "overlap/stages/stage_math.hpp"
#include "overlap/stages/stage_functions.hpp"

namespace axonn::overlap {
StageTable plain_stages() { return table_of_stages(); }
}  // namespace axonn::overlap
