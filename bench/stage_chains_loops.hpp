#pragma once

#include <cstddef>
#include <cstdint>

// Loops that were written by hand and compiled for this processor: what stage chains are compared
// with.
namespace axonn::bench {

struct AdamWNumbers {
  float scale, beta1, rest1, beta2, rest2, per_root, epsilon, minus_step, keep;
};

// weights, gradients, both moments; `rounded`: bf16 weights, or null.
struct AdamWStreams {
  float *w, *g, *m, *v;
  uint16_t* rounded;
};

// The same loads and stores as AdamW with one fma each: the traffic bound.
void adamw_traffic(const AdamWStreams& streams, size_t count, float factor);
void adamw_loop(const AdamWStreams& streams, size_t count, const AdamWNumbers& numbers);

// A sum in fp32 that only reads, and the sum of the squares in fp64.
float sum_traffic(const float* from, size_t count);
double squares_loop(const float* from, size_t count);

// gelu's reading and writing of one stream, with one fma.
void update_traffic(float* stream, size_t count, float factor);

}  // namespace axonn::bench
