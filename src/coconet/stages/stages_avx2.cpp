// The stages for AVX2 with FMA and F16C: 16 elements of fp32 per round.
#include <cstdint>
#include <cstring>
#include <utility>

#include "coconet/stages/stage_key.hpp"
#include "coconet/stages/stage_run.hpp"
#include "core/wide_vectors.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

namespace {
constexpr int kVectorBytes = 32;
}
#include "coconet/stages/stage_vectors.hpp"

namespace axonn::coconet {
namespace {

AXONN_INLINE F fma_of(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
AXONN_INLINE D fma_of(D a, D b, D c) { return _mm256_fmadd_pd(a, b, c); }
AXONN_INLINE F square_root_of(F x) { return _mm256_sqrt_ps(x); }
AXONN_INLINE D square_root_of(D x) { return _mm256_sqrt_pd(x); }
AXONN_INLINE D widen_low(F x) { return _mm256_cvtps_pd(_mm256_castps256_ps128(x)); }
AXONN_INLINE D widen_high(F x) { return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)); }
AXONN_INLINE F narrow(D low, D high) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(low)), _mm256_cvtpd_ps(high), 1);
}
AXONN_INLINE F load_fp16(const void* from) { return _mm256_cvtph_ps(load_from<__m128i>(from)); }
AXONN_INLINE void store_fp16(void* to, F x) { store_to(to, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT)); }
AXONN_INLINE F round_fp16(F x) { return _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT)); }
AXONN_INLINE UL multiply_words(UL a, UL b) { return bits<UL>(_mm256_mul_epu32(bits<__m256i>(a), bits<__m256i>(b))); }

AXONN_INLINE void leave_vectors() { _mm256_zeroupper(); }

}  // namespace
}  // namespace axonn::coconet

#include "coconet/stages/stage_functions.hpp"

namespace axonn::coconet {
StageTable avx2_stages() { return table_of_stages(); }
}  // namespace axonn::coconet

#else
namespace axonn::coconet {
StageTable avx2_stages() { return {}; }
}  // namespace axonn::coconet
#endif
