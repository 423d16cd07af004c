#include <algorithm>

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "axonn/core/error.hpp"
#include "layers/ops/dropout_mask_element.cuh"

namespace axonn {
namespace {

constexpr int kThreads = 256;

__global__ void fill(float* out, DropoutMask mask, MaskColumns columns) {
  const int64_t elements = mask.rows * columns.size, step = int64_t{gridDim.x} * kThreads;
  for (int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x; index < elements; index += step)
    store_mask_element(out, mask, columns, index);
}

}  // namespace

void fill_cuda_mask(float* out, const DropoutMask& mask, const MaskColumns& columns, int device) {
  const int64_t elements = mask.rows * columns.size;
  if (elements == 0) return;
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  const int64_t blocks = std::min<int64_t>((elements + kThreads - 1) / kThreads, 4096);
  fill<<<static_cast<unsigned>(blocks), kThreads, 0, c10::cuda::getCurrentCUDAStream().stream()>>>(out, mask, columns);
  const cudaError_t result = cudaGetLastError();
  if (result != cudaSuccess)
    throw BackendError("layers.dropout", std::string("launching the mask's kernel: ") + cudaGetErrorString(result));
}

}  // namespace axonn
