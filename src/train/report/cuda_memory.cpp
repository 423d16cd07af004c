#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>

#include "train/report/device_memory.hpp"

namespace axonn {

int64_t peak_cuda_bytes(c10::Device device) {
  using c10::CachingAllocator::StatType;
  return c10::cuda::CUDACachingAllocator::getDeviceStats(device.index())
      .allocated_bytes[static_cast<size_t>(StatType::AGGREGATE)]
      .peak;
}

std::string cuda_name(c10::Device device) {
  cudaDeviceProp properties{};
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, device.index()));
  return properties.name;
}

}  // namespace axonn
