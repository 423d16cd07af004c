#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include <c10/core/Device.h>
#include <cuda_runtime_api.h>

namespace axonn {

// CUDA events of one device. They are reused, so a steady state makes none.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  explicit EventPool(c10::DeviceIndex device) : device_(device) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  std::shared_ptr<CUevent_st> take();  // returns to the pool by itself

 private:
  const c10::DeviceIndex device_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;
};

}  // namespace axonn
