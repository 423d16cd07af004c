#include "comm/nccl/nccl_comm.hpp"

#include <cstdlib>
#include <exception>

#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"

namespace axonn {

void check_nccl(ncclResult_t result, const char* call, ncclComm_t comm) {
  if (result == ncclSuccess) return;
  const char* const detail = ncclGetLastError(comm);
  throw BackendError("comm.nccl", detail::concatenate(call, ": ", ncclGetErrorString(result),
                                                      detail != nullptr ? "; " : "", detail != nullptr ? detail : ""));
}

NcclComm::NcclComm(const Group& group, const std::string& name, uint32_t channel, c10::Device device,
                   const ncclUniqueId& id)
    : Queue(group, name, channel), device_(device) {
  const c10::cuda::CUDAGuard guard(device_);
  // Several communicators share a device: their kernels start in the order of the program, so that
  // none waits for a rank whose own waits for another.
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0);
  const ncclResult_t result = ncclCommInitRank(&comm_, group.size(), id, group.index);
  if (result == ncclSuccess) return;
  const auto call =
      detail::concatenate("ncclCommInitRank of group '", name, "' (rank ", group.index, " of ", group.size(), ")");
  check_nccl(result, call.c_str(), nullptr);
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
        if (communicator.ended_.exchange(true)) continue;
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
