#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>
#include <nccl.h>

#include "axonn/comm/communicator.hpp"
#include "comm/nccl/event_pool.hpp"
#include "comm/nccl/nccl_comm.hpp"
#include "comm/watch/device_calls.hpp"

namespace axonn {

ncclDataType_t nccl_type(const at::Tensor& tensor);

// One NCCL communicator and its own CUDA stream: the collectives of a group at one priority, first
// in first out. Used by the thread that computes (autograd's own during backward). Every rank of
// the group constructs and destroys it. After an error nothing more is launched.
class NcclQueue : public std::enable_shared_from_this<NcclQueue> {
 public:
  NcclQueue(std::shared_ptr<NcclComm> comm, std::shared_ptr<DeviceCalls> calls, std::string name, c10::Device device,
            Priority priority);
  ~NcclQueue();
  NcclQueue(const NcclQueue&) = delete;
  NcclQueue& operator=(const NcclQueue&) = delete;

  ncclComm_t comm() const { return comm_->get(); }
  const std::shared_ptr<NcclComm>& communicator() const { return comm_; }
  cudaStream_t stream() const { return stream_.stream(); }
  c10::cuda::CUDAStream cuda_stream() const { return stream_; }
  c10::Device device() const { return device_; }
  const std::string& name() const { return name_; }
  void check_running() const;  // BackendError after an error of NCCL or of the job
  void check(ncclResult_t result, const char* call) const;
  cudaError_t device_error() const;  // that a kernel of this process left

  // The next work starts after the current work on the compute stream, after `after`, and after the
  // messages that are not launched yet.
  void begin(std::span<const Request> after);
  // The request of `call`. Done when everything queued so far is done. It holds `tensors`, of which
  // some may be undefined, until the compute stream of this call waits for it, or it is seen done,
  // or dropped. Their memory is used for nothing else before the work is done.
  Request end(const DeviceCalls::Call& call, std::vector<at::Tensor> tensors);

  // A message is launched together with the next receive, or before any other next work. It is
  // launched at the latest when its request is waited for or dropped. If a send were launched by
  // itself, two ranks that send to each other first would wait for ever.
  Request send(const at::Tensor& data, int peer, const CollectiveOptions& options);
  Request receive(const at::Tensor& data, int peer, const CollectiveOptions& options);
  void launch_messages();

  // Returns when nothing is under way. BackendError after an error of NCCL or of the job.
  void finish();

 private:
  struct Message {
    at::Tensor data;
    int peer = 0;
    std::string tag;
    std::shared_ptr<CUevent_st> sent;
  };
  void follow(std::span<const Request> after);
  void launch(const at::Tensor& received, int peer);
  ncclResult_t give(const std::vector<Message>& messages, const at::Tensor& received, int peer) const;

  const std::string name_;
  const c10::Device device_;
  const std::shared_ptr<EventPool> events_;
  c10::cuda::CUDAStream stream_;
  const std::shared_ptr<NcclComm> comm_;
  const std::shared_ptr<DeviceCalls> calls_;
  const int exceptions_before_;
  std::vector<Message> messages_;  // not launched yet
  std::string broken_;             // the error after which nothing is launched
};

}  // namespace axonn
