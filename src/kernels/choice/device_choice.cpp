#include "axonn/kernels/choice/device_choice.hpp"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/env.h>

#include <ATen/Context.h>

#include "axonn/core/error.hpp"
#include "kernels/gpu/gpu_code.hpp"

namespace axonn {

// LibTorch's CUDA part registers itself when it is linked, so no file here depends on how axonn was
// built.
c10::Device choose_device(c10::Device wanted, int local_rank) {
  if (wanted.is_cpu()) return wanted;
  AXONN_CHECK(wanted.is_cuda(), "layers.context", "device must be cpu or cuda, got ", wanted.str());
  AXONN_CHECK(c10::impl::hasDeviceGuardImpl(c10::kCUDA), "layers.context",
              "this build has no CUDA; configure with -DAXONN_WITH_CUDA=ON (preset cuda), or compute on the CPU "
              "(--device cpu)");
  const c10::impl::VirtualGuardImpl cuda(c10::kCUDA);
  const int devices = cuda.deviceCount();
  AXONN_CHECK(devices > 0, "layers.context",
              "this machine has no CUDA device that its driver lets this process use; nvidia-smi lists them, --device "
              "cpu does without");
  const int index = wanted.has_index() ? wanted.index() : local_rank % devices;
  AXONN_CHECK(index < devices, "layers.context", wanted.str(), " does not exist; this machine has ", devices,
              ", from cuda:0 on");
  const c10::Device chosen(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
  cuda.setDevice(chosen);
  check_gpu_code(index);
  return chosen;
}

int64_t gpu_bytes_per_rank(c10::Device wanted, int local_rank, int local_ranks) {
  const c10::Device device = choose_device(wanted, local_rank);
  const int devices = c10::impl::VirtualGuardImpl(c10::kCUDA).deviceCount();
  const auto [unused, bytes] = c10::getDeviceAllocator(c10::kCUDA)->getMemoryInfo(device.index());
  return static_cast<int64_t>(bytes) / ((local_ranks + devices - 1) / devices);
}

void set_gpu_kernels(const GpuKernels& kernels) {
  at::Context& torch = at::globalContext();
  torch.setAllowTF32CuBLAS(kernels.tf32);
  torch.setAllowTF32CuDNN(kernels.tf32);
  torch.setDeterministicCuDNN(kernels.deterministic);
  torch.setBenchmarkCuDNN(kernels.cudnn_benchmark);
  torch.setSDPUseCuDNN(!kernels.deterministic);
  torch.setDeterministicAlgorithms(kernels.deterministic, /*warn_only=*/false);
  torch.setDeterministicFillUninitializedMemory(false);
  // cuBLAS adds in a fixed order if its workspaces have a fixed size. LibTorch reads the variable
  // under the lock that its own function takes to set it.
  if (kernels.deterministic) c10::utils::set_env("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/false);
}

}  // namespace axonn
