#include "comm/nccl/nccl_queue.hpp"

#include <algorithm>
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

void record_use(const at::Tensor& tensor, c10::cuda::CUDAStream stream) {
  c10::cuda::CUDACachingAllocator::recordStream(tensor.storage().data_ptr(), stream);
}

// Work on a queue; an event marks its end. The request holds the tensors of the work until the
// stream that asked for it waits. Memory that is freed after that may be used again on that stream
// at once, since its next work comes later. Without such a wait, the allocator keeps a freed tensor
// until an event has passed; the host is a step ahead of the device, so memory would grow.
class NcclRequest final : public Request::State {
 public:
  NcclRequest(std::shared_ptr<NcclQueue> queue, std::shared_ptr<CUevent_st> event, bool message,
              std::vector<at::Tensor> tensors)
      : queue_(std::move(queue)),
        event_(std::move(event)),
        asker_(c10::cuda::getCurrentCUDAStream(queue_->device().index())),
        tensors_(std::move(tensors)),
        message_(message) {}

  ~NcclRequest() override {
    try {
      launch();
    } catch (const std::exception& error) {
      log::error("a message that nobody waited for: ", error.what());
    }
    if (tensors_.empty() || queue_->device_error() != cudaSuccess) return;  // then nothing is reused, and events fail
    try {
      for (const at::Tensor& tensor : tensors_) record_use(tensor, queue_->cuda_stream());
    } catch (const std::exception& error) {
      log::error("tensors of a collective that nobody waited for: ", error.what());
    }
  }

  void wait() override {
    launch();
    queue_->check_running();
    const auto waiting = c10::cuda::getCurrentCUDAStream(queue_->device().index());
    C10_CUDA_CHECK(cudaStreamWaitEvent(waiting.stream(), event_.get(), 0));
    if (waiting != asker_) return;  // another queue waits: memory that is freed could be used before it
    for (const at::Tensor& tensor : tensors_) record_use(tensor, waiting);  // nothing, if it is of this stream
    tensors_.clear();
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
    tensors_.clear();
    return true;
  }

 private:
  void launch() {
    if (std::exchange(message_, false)) queue_->launch_messages();
  }

  const std::shared_ptr<NcclQueue> queue_;
  const std::shared_ptr<CUevent_st> event_;
  const c10::cuda::CUDAStream asker_;
  std::vector<at::Tensor> tensors_;
  bool message_;  // possibly not launched yet
};

}  // namespace

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

NcclQueue::NcclQueue(std::shared_ptr<NcclComm> comm, std::shared_ptr<DeviceCalls> calls, std::string name,
                     c10::Device device, Priority priority)
    : name_(std::move(name)),
      device_(device),
      events_(std::make_shared<EventPool>(device.index())),
      stream_(stream_for(device, priority)),
      comm_(std::move(comm)),
      calls_(std::move(calls)),
      exceptions_before_(std::uncaught_exceptions()) {
  calls_->add(comm_);
}

NcclQueue::~NcclQueue() {
  if (std::uncaught_exceptions() > exceptions_before_) calls_->fail("this rank had another error before");
  if (calls_->failed()) return;  // unfinished work may never end
  const c10::cuda::CUDAGuard guard(device_);
  (void)cudaStreamSynchronize(stream());
}

void NcclQueue::check_running() const {
  calls_->check();
  if (!broken_.empty()) throw BackendError("comm.nccl", broken_);
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(comm(), &state), "ncclCommGetAsyncError");
  if (state != ncclInProgress) check(state, detail::concatenate("group '", name_, "'").c_str());
}

void NcclQueue::check(ncclResult_t result, const char* call) const {
  if (result == ncclSuccess) return;
  const cudaError_t state = device_error();
  if (state == cudaSuccess) check_nccl(result, call, comm());
  throw BackendError(
      "comm.nccl",
      detail::concatenate("the GPU had failed when group '", name_, "' used it: ", cudaGetErrorString(state),
                          "; most likely in a kernel of this rank that came before, and not in NCCL; "
                          "CUDA_LAUNCH_BLOCKING=1 shows which"));
}

// When a kernel fails, all later calls report it, NCCL's too, and NCCL's name for it says nothing.
cudaError_t NcclQueue::device_error() const {
  const cudaError_t state = cudaStreamQuery(stream());
  if (state != cudaErrorNotReady) return state;
  (void)cudaGetLastError();
  return cudaSuccess;
}

void NcclQueue::follow(std::span<const Request> after) {
  check_running();
  const auto compute = c10::cuda::getCurrentCUDAStream(device_.index());
  const auto ready = events_->take();
  C10_CUDA_CHECK(cudaEventRecord(ready.get(), compute.stream()));
  C10_CUDA_CHECK(cudaStreamWaitEvent(stream(), ready.get(), 0));
  const c10::cuda::CUDAStreamGuard guard(stream_);
  for (const Request& request : after) request.wait();
}

void NcclQueue::begin(std::span<const Request> after) {
  launch_messages();
  follow(after);
}

Request NcclQueue::end(const DeviceCalls::Call& call, std::vector<at::Tensor> tensors) {
  std::erase_if(tensors, [](const at::Tensor& tensor) { return !tensor.defined(); });
  auto event = events_->take();
  C10_CUDA_CHECK(cudaEventRecord(event.get(), stream()));
  calls_->called(*comm_, call, event);
  return Request(
      std::make_shared<NcclRequest>(shared_from_this(), std::move(event), /*message=*/false, std::move(tensors)));
}

Request NcclQueue::send(const at::Tensor& data, int peer, const CollectiveOptions& options) {
  follow(options.after);
  auto event = events_->take();
  messages_.push_back({data, peer, std::string(options.tag), event});
  return Request(std::make_shared<NcclRequest>(shared_from_this(), std::move(event), /*message=*/true,
                                               std::vector<at::Tensor>{data}));
}

Request NcclQueue::receive(const at::Tensor& data, int peer, const CollectiveOptions& options) {
  follow(options.after);
  launch(data, peer);
  return end({.collective = "receive", .tag = options.tag, .bytes = static_cast<int64_t>(data.nbytes()), .peer = peer},
             {data});
}

void NcclQueue::launch_messages() {
  if (!messages_.empty()) launch({}, 0);
}

void NcclQueue::finish() {
  launch_messages();
  const c10::cuda::CUDAGuard guard(device_);
  const cudaError_t ended = cudaStreamSynchronize(stream());
  check_running();
  check(ended == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError, "cudaStreamSynchronize");
}

void NcclQueue::launch(const at::Tensor& received, int peer) {
  const c10::cuda::CUDAGuard guard(device_);
  const std::vector<Message> messages = std::exchange(messages_, {});
  try {
    check(launched_as_one([&] { return give(messages, received, peer); }), "ncclSend and ncclRecv");
  } catch (const BackendError& error) {
    broken_ = error.sentence();  // events that are not recorded look as if they had come
    throw;
  }
  for (const auto& [data, to, tag, sent] : messages) {
    C10_CUDA_CHECK(cudaEventRecord(sent.get(), stream()));
    calls_->called(*comm_, {.collective = "send", .tag = tag, .bytes = static_cast<int64_t>(data.nbytes()), .peer = to},
                   sent);
  }
}

ncclResult_t NcclQueue::give(const std::vector<Message>& messages, const at::Tensor& received, int peer) const {
  const auto elements = [](const at::Tensor& tensor) { return static_cast<size_t>(tensor.numel()); };
  ncclResult_t result = ncclSuccess;
  for (const auto& [data, to, tag, sent] : messages)
    if (data.numel() > 0 && result == ncclSuccess)
      result = ncclSend(data.const_data_ptr(), elements(data), nccl_type(data), to, comm(), stream());
  if (received.defined() && received.numel() > 0 && result == ncclSuccess)
    result = ncclRecv(received.mutable_data_ptr(), elements(received), nccl_type(received), peer, comm(), stream());
  return result;
}

}  // namespace axonn
