#include "layers/ops/dropout_mask.hpp"

#include <algorithm>

#include "layers/ops/launch.cuh"

#define QUALIFIERS static inline __host__ __device__
#include <curand_philox4x32_x.h>

namespace axonn {
namespace {

constexpr int kThreads = 256;

// Stores the mask's value of element `index` of these columns, counted row by row.
__device__ void store_mask_element(float* out, const DropoutMask& mask, const MaskColumns& columns, int64_t index) {
  const int64_t row = index / columns.size, column = index % columns.size;
  const int64_t outer = row / (mask.middle * mask.inner), middle = row / mask.inner % mask.middle,
                inner = row % mask.inner;
  const int64_t begin =
      mask.first + outer * mask.outer_stride + middle * mask.middle_stride + inner * mask.inner_stride;
  const auto element = static_cast<uint64_t>(begin + columns.global + column);
  const uint64_t block = element / 4;
  const uint4 words =
      curand_Philox4x32_10(make_uint4(static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, mask.stream),
                           make_uint2(static_cast<uint32_t>(mask.seed), static_cast<uint32_t>(mask.seed >> 32)));
  const uint32_t choice[4] = {words.x, words.y, words.z, words.w};
  const double uniform = choice[element % 4] * 0x1p-32;
  out[row * mask.width + columns.local + column] =
      uniform < mask.probability ? 0.0f : static_cast<float>(1 / (1 - mask.probability));
}

__global__ void fill(float* out, DropoutMask mask, MaskColumns columns) {
  const int64_t elements = mask.rows * columns.size, step = int64_t{gridDim.x} * kThreads;
  for (int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x; index < elements; index += step)
    store_mask_element(out, mask, columns, index);
}

}  // namespace

void fill_cuda_mask(float* out, const DropoutMask& mask, const MaskColumns& columns, int device) {
  const int64_t elements = mask.rows * columns.size;
  if (elements == 0) return;
  const int64_t blocks = std::min<int64_t>((elements + kThreads - 1) / kThreads, 4096);
  launch("layers.dropout", device, {static_cast<unsigned>(blocks), kThreads}, fill, out, mask, columns);
}

}  // namespace axonn
