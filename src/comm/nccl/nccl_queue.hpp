#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "axonn/comm/communicator.hpp"

namespace axonn {

// BackendError with NCCL's own text unless `result` is success. `comm` may be null.
void check_nccl(ncclResult_t result, const char* call, ncclComm_t comm);

ncclDataType_t nccl_type(const at::Tensor& tensor);

// CUDA events of one device. They are reused, so a steady state makes none.
class EventPool {
 public:
  explicit EventPool(c10::DeviceIndex device) : device_(device) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  std::shared_ptr<CUevent_st> take();  // returns to the pool by itself; the pool must outlive it

 private:
  const c10::DeviceIndex device_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;
};

// One NCCL communicator and its own CUDA stream: the collectives of a group at one priority, first
// in first out. Used by the thread that computes (autograd's own during backward). Every rank of
// the group constructs and destroys it.
class NcclQueue : public std::enable_shared_from_this<NcclQueue> {
 public:
  NcclQueue(const Group& group, std::string name, c10::Device device, Priority priority, const ncclUniqueId& id);
  ~NcclQueue();
  NcclQueue(const NcclQueue&) = delete;
  NcclQueue& operator=(const NcclQueue&) = delete;

  ncclComm_t comm() const { return comm_; }
  cudaStream_t stream() const { return stream_.stream(); }
  c10::Device device() const { return device_; }
  const std::string& name() const { return name_; }
  void check_running() const;  // BackendError after an NCCL error
  void check(ncclResult_t result, const char* call) const { check_nccl(result, call, comm_); }

  // The next work starts after the current work on the compute stream, after `after`, and after the
  // messages that are not launched yet.
  void begin(std::span<const Request> after);
  // Done when everything queued so far is done. Until then the memory of `tensors` is not reused.
  Request end(std::initializer_list<at::Tensor> tensors);

  // A message is launched together with the next receive, or before any other next work. It is
  // launched at the latest when its request is waited for or dropped. If a send were launched by
  // itself, two ranks that send to each other first would wait for ever.
  Request send(const at::Tensor& data, int peer, std::span<const Request> after);
  Request receive(const at::Tensor& data, int peer, std::span<const Request> after);
  void launch_messages();

 private:
  struct Message {
    at::Tensor data;
    int peer = 0;
    std::shared_ptr<CUevent_st> sent;
  };
  void follow(std::span<const Request> after);
  void launch(const at::Tensor& received, int peer);

  const std::string name_;
  const c10::Device device_;
  EventPool events_;
  c10::cuda::CUDAStream stream_;
  ncclComm_t comm_ = nullptr;
  int exceptions_before_;
  std::vector<Message> messages_;  // not launched yet
};

}  // namespace axonn
