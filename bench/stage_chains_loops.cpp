#include "stage_chains_loops.hpp"

#include <cmath>
#include <cstring>

namespace axonn::bench {
namespace {

uint16_t to_bf16(float value) {
  uint32_t word;
  std::memcpy(&word, &value, 4);
  return static_cast<uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
}

template <bool with_rounded>
void traffic(const AdamWStreams& s, size_t count, float factor) {
  float* __restrict w = s.w, * __restrict m = s.m, * __restrict v = s.v;
  const float* __restrict g = s.g;
  uint16_t* __restrict rounded = s.rounded;
  for (size_t i = 0; i < count; ++i) {
    m[i] = std::fma(factor, g[i], m[i]);
    v[i] = std::fma(factor, g[i], v[i]);
    w[i] = std::fma(factor, g[i], w[i]);
    if (with_rounded) rounded[i] = to_bf16(w[i]);
  }
}

template <bool with_rounded>
void update(const AdamWStreams& s, size_t count, const AdamWNumbers& numbers) {
  const AdamWNumbers k = numbers;
  float* __restrict w = s.w, * __restrict m = s.m, * __restrict v = s.v;
  const float* __restrict g = s.g;
  uint16_t* __restrict rounded = s.rounded;
  for (size_t i = 0; i < count; ++i) {
    const float x = g[i] * k.scale;
    m[i] = std::fma(k.beta1, m[i], k.rest1 * x);
    v[i] = std::fma(k.beta2, v[i], k.rest2 * (x * x));
    const float root = std::fma(std::sqrt(v[i]), k.per_root, k.epsilon);
    w[i] = std::fma(k.minus_step, m[i] / root, w[i] * k.keep);
    if (with_rounded) rounded[i] = to_bf16(w[i]);
  }
}

}  // namespace

void adamw_traffic(const AdamWStreams& streams, size_t count, float factor) {
  streams.rounded == nullptr ? traffic<false>(streams, count, factor) : traffic<true>(streams, count, factor);
}

void adamw_loop(const AdamWStreams& streams, size_t count, const AdamWNumbers& numbers) {
  streams.rounded == nullptr ? update<false>(streams, count, numbers) : update<true>(streams, count, numbers);
}

float sum_traffic(const float* from, size_t count) {
  constexpr size_t kLanes = 128;
  float lanes[kLanes] = {};
  for (size_t i = 0; i + kLanes <= count; i += kLanes)
    for (size_t j = 0; j < kLanes; ++j) lanes[j] += from[i + j];
  float sum = 0;
  for (const float each : lanes) sum += each;
  return sum;
}

double squares_loop(const float* from, size_t count) {
  constexpr size_t kLanes = 64;
  double lanes[kLanes] = {};
  for (size_t i = 0; i + kLanes <= count; i += kLanes)
    for (size_t j = 0; j < kLanes; ++j) lanes[j] = std::fma(double{from[i + j]}, double{from[i + j]}, lanes[j]);
  double sum = 0;
  for (const double each : lanes) sum += each;
  return sum;
}

void update_traffic(float* stream, size_t count, float factor) {
  for (size_t i = 0; i < count; ++i) stream[i] = std::fma(factor, stream[i], factor);
}

}  // namespace axonn::bench
