#include <c10/cuda/CUDACachingAllocator.h>

#include "train/report/device_memory.hpp"

namespace axonn {

int64_t peak_cuda_bytes(c10::Device device) {
  using c10::CachingAllocator::StatType;
  return c10::cuda::CUDACachingAllocator::getDeviceStats(device.index())
      .allocated_bytes[static_cast<size_t>(StatType::AGGREGATE)]
      .peak;
}

}  // namespace axonn
