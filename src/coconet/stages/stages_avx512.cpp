// The stages for AVX-512 with its parts F, BW, DQ and VL: 32 elements of fp32 per round.
#include <cstdint>
#include <cstring>
#include <utility>

#include "coconet/stages/stage_key.hpp"
#include "coconet/stages/stage_run.hpp"
#include "core/wide_vectors.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

namespace {
constexpr int kVectorBytes = 64;
}
#include "coconet/stages/stage_vectors.hpp"

namespace axonn::coconet {
namespace {

AXONN_INLINE F fma_of(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
AXONN_INLINE D fma_of(D a, D b, D c) { return _mm512_fmadd_pd(a, b, c); }
AXONN_INLINE F square_root_of(F x) { return _mm512_sqrt_ps(x); }
AXONN_INLINE D square_root_of(D x) { return _mm512_sqrt_pd(x); }
AXONN_INLINE D widen_low(F x) { return _mm512_cvtps_pd(_mm512_castps512_ps256(x)); }
AXONN_INLINE D widen_high(F x) { return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)); }
AXONN_INLINE F narrow(D low, D high) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
}
AXONN_INLINE F load_fp16(const void* from) { return _mm512_cvtph_ps(load_from<__m256i>(from)); }
AXONN_INLINE __m256i half_of(F x) { return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT); }
AXONN_INLINE void store_fp16(void* to, F x) { store_to(to, half_of(x)); }
AXONN_INLINE F round_fp16(F x) { return _mm512_cvtph_ps(half_of(x)); }
AXONN_INLINE UL multiply_words(UL a, UL b) { return bits<UL>(_mm512_mul_epu32(bits<__m512i>(a), bits<__m512i>(b))); }

AXONN_INLINE void leave_vectors() { _mm256_zeroupper(); }

}  // namespace
}  // namespace axonn::coconet

#include "coconet/stages/stage_functions.hpp"

namespace axonn::coconet {
StageTable avx512_stages() { return table_of_stages(); }
}  // namespace axonn::coconet

#else
namespace axonn::coconet {
StageTable avx512_stages() { return {}; }
}  // namespace axonn::coconet
#endif
