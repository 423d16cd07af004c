#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include <c10/util/BFloat16.h>

#include "core/wide_vectors.hpp"

// Dot products in fp32 of rows that are read once, for bodies of with_wide_vectors().
namespace axonn {

inline constexpr int64_t kLanes = 16, kSums = 4;  // partial sums: so many vectors of so many lanes

using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));
using Halves = float __attribute__((vector_size(kLanes / 2 * sizeof(float))));
using Quarters = float __attribute__((vector_size(kLanes / 4 * sizeof(float))));

AXONN_INLINE float number(float value) { return value; }
AXONN_INLINE float number(c10::BFloat16 value) { return std::bit_cast<float>(uint32_t{value.x} << 16); }

AXONN_INLINE void read(const float* from, Lanes& to) { std::memcpy(&to, from, sizeof to); }
AXONN_INLINE void read(const c10::BFloat16* from, Lanes& to) {
  using Words = uint32_t __attribute__((vector_size(kLanes * sizeof(uint32_t))));
  uint16_t __attribute__((vector_size(kLanes * sizeof(uint16_t)))) narrow;
  std::memcpy(&narrow, from, sizeof narrow);
  const Words words = __builtin_convertvector(narrow, Words) << 16;
  std::memcpy(&to, &words, sizeof to);
}

AXONN_INLINE float sum_of(const Lanes& lanes) {
  const Halves half = __builtin_shufflevector(lanes, lanes, 0, 1, 2, 3, 4, 5, 6, 7) +
                      __builtin_shufflevector(lanes, lanes, 8, 9, 10, 11, 12, 13, 14, 15);
  Quarters quarter = __builtin_shufflevector(half, half, 0, 1, 2, 3) + __builtin_shufflevector(half, half, 4, 5, 6, 7);
  quarter += __builtin_shufflevector(quarter, quarter, 2, 3, 0, 1);
  return quarter[0] + quarter[1];
}

// The dot products of kRows rows (k numbers each) and one row of a weight. Take one row of the
// weight after the other: a processor reads ahead of one stream better than of several.
template <int64_t kRows, typename Element>
AXONN_INLINE void dots(const float* rows, const Element* weight, int64_t k, float* sums) {
  Lanes partial[kRows][kSums] = {};
  const auto add = [&](int64_t i, int64_t part) AXONN_INLINE_LAMBDA {
    Lanes weights, values;
    read(weight + i, weights);
    for (int64_t r = 0; r < kRows; ++r) {
      read(rows + r * k + i, values);
      partial[r][part] += values * weights;
    }
  };
  int64_t i = 0;
  for (; i + kSums * kLanes <= k; i += kSums * kLanes)
    for (int64_t part = 0; part < kSums; ++part) add(i + part * kLanes, part);
  for (; i + kLanes <= k; i += kLanes) add(i, 0);
  for (int64_t r = 0; r < kRows; ++r) {
    Lanes all = partial[r][0];
    for (int64_t part = 1; part < kSums; ++part) all += partial[r][part];
    sums[r] = sum_of(all);
    for (int64_t j = i; j < k; ++j) sums[r] += rows[r * k + j] * number(weight[j]);
  }
}

}  // namespace axonn
