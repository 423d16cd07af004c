#include "comm/nccl/event_pool.hpp"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

namespace axonn {

EventPool::~EventPool() {
  for (cudaEvent_t event : free_) (void)cudaEventDestroy(event);
}

std::shared_ptr<CUevent_st> EventPool::take() {
  cudaEvent_t event = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      event = free_.back();
      free_.pop_back();
    }
  }
  if (event == nullptr) {
    const c10::cuda::CUDAGuard guard(device_);
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  return {event, [pool = shared_from_this()](cudaEvent_t used) {
            const std::lock_guard lock(pool->mutex_);
            pool->free_.push_back(used);
          }};
}

}  // namespace axonn
