// Types and basic functions of CUDA text. A vector of the stages is one number here.
#define AXONN_INLINE [[maybe_unused]] static __device__ __forceinline__

namespace axonn::coconet {
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;

// A dropout mask of one call: axonn's MaskRun.
struct MaskRun {
  uint64_t seed;
  uint64_t first;
  uint32_t stream;
  uint32_t last_dropped;
  bool drops;
  float kept;
};

namespace {

using F = float;
using D = double;
using U = uint32_t;
using UL = uint64_t;
using L = bool;

template <typename To, typename From>
AXONN_INLINE To bits(From value) {
  return __builtin_bit_cast(To, value);
}
AXONN_INLINE F all(F number) { return number; }
AXONN_INLINE D all(D number) { return number; }
AXONN_INLINE F fma_of(F a, F b, F c) { return __fmaf_rn(a, b, c); }
AXONN_INLINE D fma_of(D a, D b, D c) { return __fma_rn(a, b, c); }
AXONN_INLINE F square_root_of(F x) { return __fsqrt_rn(x); }
AXONN_INLINE D square_root_of(D x) { return __dsqrt_rn(x); }
AXONN_INLINE UL multiply_words(UL a, UL b) { return a * b; }

}  // namespace
}  // namespace axonn::coconet
