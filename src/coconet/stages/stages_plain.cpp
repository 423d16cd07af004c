// The stages without any instruction set beyond the compiler's default: 8 elements of fp32 per
// round. They are right everywhere, and fast nowhere.
#include <cstdint>
#include <cstring>
#include <utility>

#include "coconet/stages/stage_key.hpp"
#include "coconet/stages/stage_run.hpp"
#include "core/wide_vectors.hpp"

namespace {
constexpr int kVectorBytes = 16;
}
#include "coconet/stages/stage_vectors.hpp"

namespace axonn::coconet {
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

AXONN_INLINE F load_fp16(const void* from) { return widen_half(__builtin_convertvector(load_from<H>(from), U)); }
AXONN_INLINE void store_fp16(void* to, F x) { store_to(to, __builtin_convertvector(half_word_of(x), H)); }
AXONN_INLINE F round_fp16(F x) { return widen_half(half_word_of(x)); }
AXONN_INLINE UL multiply_words(UL a, UL b) { return (a & 0xffffffffu) * (b & 0xffffffffu); }

AXONN_INLINE void leave_vectors() {}

}  // namespace
}  // namespace axonn::coconet

#include "coconet/stages/stage_functions.hpp"

namespace axonn::coconet {
StageTable plain_stages() { return table_of_stages(); }
}  // namespace axonn::coconet
