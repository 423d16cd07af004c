// The random words of axonn/core/philox.hpp, for kernels.
#pragma once

#include <cstdint>

#include "kernels/gpu/launch.cuh"

#define QUALIFIERS static inline __host__ __device__
#include <curand_philox4x32_x.h>

namespace axonn {

// The four words of a block of this stream: philox(seed, block, 0, stream).
__device__ inline uint4 philox_words(uint64_t seed, uint64_t block, uint32_t stream) {
  const auto low = [](uint64_t word) { return static_cast<uint32_t>(word); };
  return curand_Philox4x32_10(make_uint4(low(block), low(block >> 32), 0, stream),
                              make_uint2(low(seed), low(seed >> 32)));
}

}  // namespace axonn
