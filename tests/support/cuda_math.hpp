// CUDA's arithmetic with one rounding, on the host: the words that CUDA text uses.
#pragma once

#include <cmath>

inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dsqrt_rn(double x) { return std::sqrt(x); }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
