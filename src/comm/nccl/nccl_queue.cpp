#include "comm/nccl/nccl_queue.hpp"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <utility>

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"

namespace axonn {
namespace {

// LibTorch's own streams live as long as the process. The allocator may ask for the stream of a
// collective when its tensor is freed, which can be after the end of the communicator.
c10::cuda::CUDAStream stream_for(c10::Device device, Priority priority) {
  const c10::cuda::CUDAGuard guard(device);
  const auto [least, greatest] = c10::cuda::CUDAStream::priority_range();  // the greatest is the smallest number
  const int chosen = priority == Priority::high  ? greatest
                     : priority == Priority::low ? least
                                                 : std::min(greatest + 1, least);
  return c10::cuda::getStreamFromPool(chosen, device.index());
}

// Work on a queue; an event marks its end.
class NcclRequest final : public Request::State {
 public:
  NcclRequest(std::shared_ptr<NcclQueue> queue, std::shared_ptr<CUevent_st> event, bool message)
      : queue_(std::move(queue)), event_(std::move(event)), message_(message) {}

  ~NcclRequest() override {
    if (!message_) return;
    try {
      queue_->launch_messages();
    } catch (const std::exception& error) {
      log::error("a message that nobody waited for: ", error.what());
    }
  }

  void wait() override {
    launch();
    queue_->check_running();
    C10_CUDA_CHECK(
        cudaStreamWaitEvent(c10::cuda::getCurrentCUDAStream(queue_->device().index()).stream(), event_.get(), 0));
  }

  bool done() override {
    launch();
    queue_->check_running();
    const cudaError_t state = cudaEventQuery(event_.get());
    if (state == cudaErrorNotReady) {
      (void)cudaGetLastError();  // clears the status, which is no error
      return false;
    }
    C10_CUDA_CHECK(state);
    return true;
  }

 private:
  void launch() {
    if (std::exchange(message_, false)) queue_->launch_messages();
  }

  std::shared_ptr<NcclQueue> queue_;
  std::shared_ptr<CUevent_st> event_;
  bool message_;  // possibly not launched yet
};

}  // namespace

void check_nccl(ncclResult_t result, const char* call, ncclComm_t comm) {
  if (result == ncclSuccess) return;
  const char* const detail = ncclGetLastError(comm);
  throw BackendError("comm.nccl", detail::concatenate(call, ": ", ncclGetErrorString(result),
                                                      detail != nullptr ? "; " : "", detail != nullptr ? detail : ""));
}

ncclDataType_t nccl_type(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble:
      return ncclFloat64;
    case at::kFloat:
      return ncclFloat32;
    case at::kBFloat16:
      return ncclBfloat16;
    case at::kHalf:
      return ncclFloat16;
    case at::kLong:
      return ncclInt64;
    case at::kInt:
      return ncclInt32;
    default:
      return ncclUint8;  // check_tensor rejects all others
  }
}

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
  return {event, [this](cudaEvent_t used) {
            const std::lock_guard lock(mutex_);
            free_.push_back(used);
          }};
}

NcclQueue::NcclQueue(const Group& group, std::string name, c10::Device device, Priority priority,
                     const ncclUniqueId& id)
    : name_(std::move(name)),
      device_(device),
      events_(device.index()),
      stream_(stream_for(device, priority)),
      exceptions_before_(std::uncaught_exceptions()) {
  const c10::cuda::CUDAGuard guard(device_);
  // Several communicators share a device: their kernels start in the order of the program, so that
  // none waits for a rank whose own waits for another.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0);
  const ncclResult_t result = ncclCommInitRank(&comm_, group.size(), id, group.index);
  if (result == ncclSuccess) return;
  const auto call =
      detail::concatenate("ncclCommInitRank of group '", name_, "' (rank ", group.index, " of ", group.size(), ")");
  check_nccl(result, call.c_str(), nullptr);
}

NcclQueue::~NcclQueue() {
  const c10::cuda::CUDAGuard guard(device_);
  ncclResult_t result = ncclSuccess;
  if (std::uncaught_exceptions() > exceptions_before_) {
    result = ncclCommAbort(comm_);  // unfinished work may never end
  } else {
    (void)cudaStreamSynchronize(stream());
    result = ncclCommDestroy(comm_);
  }
  if (result != ncclSuccess) log::error("the end of NCCL group '", name_, "': ", ncclGetErrorString(result));
}

void NcclQueue::check_running() const {
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
  if (state != ncclInProgress) check(state, detail::concatenate("group '", name_, "'").c_str());
}

void NcclQueue::follow(std::span<const Request> after) {
  check_running();
  const auto compute = c10::cuda::getCurrentCUDAStream(device_.index());
  const auto ready = events_.take();
  C10_CUDA_CHECK(cudaEventRecord(ready.get(), compute.stream()));
  C10_CUDA_CHECK(cudaStreamWaitEvent(stream(), ready.get(), 0));
  const c10::cuda::CUDAStreamGuard guard(stream_);
  for (const Request& request : after) request.wait();
}

void NcclQueue::begin(std::span<const Request> after) {
  launch_messages();
  follow(after);
}

Request NcclQueue::end(std::initializer_list<at::Tensor> tensors) {
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined()) c10::cuda::CUDACachingAllocator::recordStream(tensor.storage().data_ptr(), stream_);
  auto event = events_.take();
  C10_CUDA_CHECK(cudaEventRecord(event.get(), stream()));
  return Request(std::make_shared<NcclRequest>(shared_from_this(), std::move(event), /*message=*/false));
}

Request NcclQueue::send(const at::Tensor& data, int peer, std::span<const Request> after) {
  follow(after);
  auto event = events_.take();
  messages_.push_back({data, peer, event});
  return Request(std::make_shared<NcclRequest>(shared_from_this(), std::move(event), /*message=*/true));
}

Request NcclQueue::receive(const at::Tensor& data, int peer, std::span<const Request> after) {
  follow(after);
  launch(data, peer);
  return end({data});
}

void NcclQueue::launch_messages() {
  if (!messages_.empty()) launch({}, 0);
}

void NcclQueue::launch(const at::Tensor& received, int peer) {
  const c10::cuda::CUDAGuard guard(device_);
  const std::vector<Message> messages = std::exchange(messages_, {});
  const auto elements = [](const at::Tensor& tensor) { return static_cast<size_t>(tensor.numel()); };
  check(ncclGroupStart(), "ncclGroupStart");
  for (const auto& [data, to, sent] : messages)
    if (data.numel() > 0)
      check(ncclSend(data.const_data_ptr(), elements(data), nccl_type(data), to, comm_, stream()), "ncclSend");
  if (received.defined() && received.numel() > 0)
    check(ncclRecv(received.mutable_data_ptr(), elements(received), nccl_type(received), peer, comm_, stream()),
          "ncclRecv");
  check(ncclGroupEnd(), "ncclGroupEnd");
  for (const auto& [data, to, sent] : messages) {
    c10::cuda::CUDACachingAllocator::recordStream(data.storage().data_ptr(), stream_);
    C10_CUDA_CHECK(cudaEventRecord(sent.get(), stream()));
  }
}

}  // namespace axonn
