#include "comm/nccl/nccl_comm.hpp"

#include <chrono>
#include <exception>
#include <future>
#include <thread>

#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"

namespace axonn {

namespace {

using Made = std::pair<ncclResult_t, ncclComm_t>;

// NCCL waits for all members, and nothing ends its wait. So it waits on a thread of its own, which
// is left behind when the job fails.
Made join(c10::Device device, const NcclStart& start, const DeviceCalls& calls) {
  std::promise<Made> promise;
  std::future<Made> made = promise.get_future();
  std::thread([promise = std::move(promise), device, make = start.make]() mutable {
    try {
      const c10::cuda::CUDAGuard guard(device);
      ncclComm_t comm = nullptr;
      const ncclResult_t result = make(comm);
      make = nullptr;  // the program's thread, not this one, ends what it keeps
      promise.set_value({result, comm});
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  }).detach();
  while (made.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready) calls.check();
  return made.get();
}

}  // namespace

NcclComm::NcclComm(const Group& group, const std::string& name, uint32_t channel, c10::Device device,
                   const NcclStart& start, const DeviceCalls& calls)
    : Queue(group, name, channel), device_(device) {
  const auto [result, comm] = join(device, start, calls);
  comm_ = comm;
  if (result == ncclSuccess) return;
  const auto call =
      detail::concatenate(start.call, " of group '", name, "' (rank ", group.index, " of ", group.size(), ")");
  check_nccl(result, call.c_str(), nullptr);
}

// `kept_` is set before `ended_` is read, and abort() reads them the other way round.
NcclStart NcclComm::keeping(std::shared_ptr<NcclComm> other, NcclStart start) {
  start.make = [other = std::move(other), make = std::move(start.make)](ncclComm_t& made) {
    other->kept_ = true;
    if (other->ended_)
      throw BackendError("comm.nccl", "the job had failed before a communicator could be split; see its first error");
    const ncclResult_t result = make(made);
    other->kept_ = false;
    return result;
  };
  return start;
}

NcclComm::~NcclComm() {
  if (ended_) return;
  const c10::cuda::CUDAGuard guard(device_);
  const ncclResult_t result = ncclCommDestroy(comm_);
  if (result != ncclSuccess) log::error("the end of NCCL group '", name(), "': ", ncclGetErrorString(result));
}

// The engine may ask while another thread captures a graph. An error shows in the next call.
bool NcclComm::passed(const DeviceCalls::Mark& mark) {
  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  const cudaError_t state = cudaEventQuery(static_cast<cudaEvent_t>(mark.get()));
  if (state != cudaSuccess) (void)cudaGetLastError();
  return state != cudaErrorNotReady;
}

// As one: the end of a communicator may wait for kernels of another one that has not ended.
void NcclComm::abort(std::span<const std::shared_ptr<Queue>> all) noexcept {
  try {
    const c10::cuda::CUDAGuard guard(device_);
    const ncclResult_t result = launched_as_one([&] {
      ncclResult_t first = ncclSuccess;
      for (const auto& queue : all) {
        auto& communicator = static_cast<NcclComm&>(*queue);
        if (communicator.ended_.exchange(true) || communicator.kept_) continue;  // nothing is under way on kept ones
        const ncclResult_t ended = ncclCommAbort(communicator.comm_);
        if (first == ncclSuccess) first = ended;
      }
      return first;
    });
    check_nccl(result, "ncclCommAbort", nullptr);
  } catch (const std::exception& error) {
    log::error("the end of NCCL's collectives: ", error.what());
  }
}

}  // namespace axonn
