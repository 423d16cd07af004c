#include "gpu/kernels/device_memory.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <c10/core/Device.h>
#include <cuda_runtime_api.h>

#include "gpu/kernels/kernel_memory.hpp"

// LibTorch has it in no header: its larger part, which is not linked here, tells its smaller one.
namespace c10::cuda::_internal {
void setHasPrimaryContext(bool (*)(DeviceIndex));
}

namespace {

int64_t launched = 0;

}  // namespace

// The linker leads each launch of nvcc's code here (--wrap).
extern "C" cudaError_t __real___cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t);
extern "C" cudaError_t __wrap___cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                                 size_t shared, cudaStream_t stream) {
  ++launched;
  return __real___cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

namespace kernel_test {
namespace {

size_t guards = 256;  // as memory from cudaMalloc() is aligned
bool dry = false, lost = false;
// Memory that is free again, by size. A cudaMalloc() of its own size each, as memcheck wants it.
std::map<size_t, std::vector<std::byte*>> unused;

void check(cudaError_t result) {
  if (result == cudaSuccess) return;
  lost = true;
  throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(result) + "; no later test runs");
}

}  // namespace

std::string take_device() {
  int devices = 0;
  cudaError_t result = cudaGetDeviceCount(&devices);
  cudaDeviceProp properties{};
  if (result == cudaSuccess && devices == 0) return "the driver lists none";
  if (result == cudaSuccess) result = cudaGetDeviceProperties(&properties, 0);
  if (result != cudaSuccess) return cudaGetErrorString(result);
  c10::cuda::_internal::setHasPrimaryContext([](c10::DeviceIndex) { return true; });
  dry = std::string_view(properties.name) == "dry GPU";
  return {};
}

void use_no_guard_bytes() { guards = 0; }
bool device_is_lost() { return lost; }
int64_t launches() { return launched; }

size_t guard_bytes() { return guards; }

std::byte* allocate(size_t bytes) {
  std::vector<std::byte*>& of_size = unused[bytes];
  void* memory = nullptr;
  if (of_size.empty()) {
    check(cudaMalloc(&memory, std::max<size_t>(bytes, 1)));
    return static_cast<std::byte*>(memory);
  }
  memory = of_size.back();
  of_size.pop_back();
  return static_cast<std::byte*>(memory);
}
void release(std::byte* memory, size_t bytes) { unused[bytes].push_back(memory); }

void copy_to_kernels(std::byte* to, const std::byte* from, size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
}
void copy_from_kernels(std::byte* to, const std::byte* from, size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
}

bool kernels_run() { return !dry; }

void in_each_order(const Runs& runs, const std::function<void()>& pass) {
  for (int i = 0; i < runs.on_device; ++i) pass();
}

}  // namespace kernel_test
