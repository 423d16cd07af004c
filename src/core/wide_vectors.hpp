#pragma once

#define AXONN_INLINE [[gnu::always_inline]] inline
#define AXONN_INLINE_LAMBDA __attribute__((always_inline))

// AXONN_INDEPENDENT before a loop: no iteration depends on another one, though pointers may be
// equal. AXONN_AVX512: a function for AVX-512 with vectors of 512 bits, which neither compiler
// prefers by itself.
#ifdef __clang__
#define AXONN_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define AXONN_AVX512 [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl"), clang::min_vector_width(512)]]
#else
#define AXONN_INDEPENDENT _Pragma("GCC ivdep")
#define AXONN_AVX512 [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")]]
#endif

// One body of loops, compiled for three instruction sets. The widest one that this processor has
// runs:
//
//   with_wide_vectors([&]() AXONN_INLINE_LAMBDA { for (...) out[i] = a[i] + b[i]; });
//
// Functions that the body calls must be AXONN_INLINE too; others stay as the file is compiled. The
// choice is made by hand at every call and costs a few instructions: the compiler's own dispatch
// (target_clones) runs before ThreadSanitizer is ready.
namespace axonn {
namespace detail {

#ifdef __clang__  // a loop that it cannot make of vectors is right without them
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpass-failed"
#endif
#if defined(__x86_64__)
template <typename Body>
[[gnu::target("avx2")]] void run_on_avx2(const Body& body) {
  body();
}
template <typename Body>
AXONN_AVX512 void run_on_avx512(const Body& body) {
  body();
}
#endif
#ifdef __clang__
#pragma clang diagnostic pop
#endif

}  // namespace detail

template <typename Body>
void with_wide_vectors(const Body& body) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return detail::run_on_avx512(body);
  if (__builtin_cpu_supports("avx2")) return detail::run_on_avx2(body);
#endif
  body();
}

}  // namespace axonn
