// Kernels are written down by name, grid, block and stream.
#include <unordered_map>
#include <vector>

#include "device.hpp"
#include "kernel_activity.hpp"
#include "record.hpp"

namespace dry {
namespace {

struct Kernels {
  std::mutex mutex;
  std::unordered_map<const void*, const char*> names;
};

Kernels& kernels() {
  static auto* const the = new Kernels;
  return *the;
}

struct Launch {
  dim3 grid, block;
  size_t shared = 0;
  void* stream = nullptr;
};

thread_local std::vector<Launch> configured;

std::string size(dim3 of) { return std::to_string(of.x) + "," + std::to_string(of.y) + "," + std::to_string(of.z); }

std::string name_of(const void* function) {
  const std::lock_guard lock(kernels().mutex);
  const auto found = kernels().names.find(function);
  return found != kernels().names.end() ? found->second : "unknown";
}

cudaError_t launch(const void* function, dim3 grid, dim3 block, cudaStream_t stream) {
  if (fails("kernel")) break_device(cudaErrorIllegalAddress);
  if (hangs("kernel")) hang(stream);
  const std::string name = name_of(function);
  if (recording()) write("kernel", join(name, size(grid), size(block), number_of(stream)));
  kernel_was_launched(name, number_of(stream));
  return work(stream);
}

}  // namespace
}  // namespace dry

using namespace dry;

DRY_EXPORT void** __cudaRegisterFatBinary(void*) {
  static void* handle[8];
  return handle;
}
DRY_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}
DRY_EXPORT void __cudaUnregisterFatBinary(void**) {}
DRY_EXPORT char __cudaInitModule(void**) { return 0; }
DRY_EXPORT void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
DRY_EXPORT void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*, uint3*,
                                       dim3*, dim3*, int*) {
  const std::lock_guard lock(kernels().mutex);
  kernels().names[function] = name;
}
DRY_EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
  configured.push_back({grid, block, shared, stream});
  return 0;
}
DRY_EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  const Launch launch = configured.back();
  configured.pop_back();
  *grid = launch.grid;
  *block = launch.block;
  *shared = launch.shared;
  *static_cast<void**>(stream) = launch.stream;
  return cudaSuccess;
}
DRY_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
DRY_EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void**, size_t,
                                          cudaStream_t stream) {
  return launch(reinterpret_cast<const void*>(kernel), grid, block, stream);
}
DRY_EXPORT cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void**, size_t,
                                        cudaStream_t stream) {
  return launch(function, grid, block, stream);
}
DRY_EXPORT cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void**, size_t,
                                                   cudaStream_t stream) {
  return launch(function, grid, block, stream);
}
DRY_EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void**) {
  return launch(function, config->gridDim, config->blockDim, config->stream);
}

DRY_EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->binaryVersion = attributes->ptxVersion = 90;
  return cudaSuccess;
}
DRY_EXPORT cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
DRY_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int, size_t,
                                                                              unsigned) {
  *blocks = 4;
  return cudaSuccess;
}
DRY_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) {
  *blocks = 4;
  return cudaSuccess;
}
DRY_EXPORT cudaError_t cudaGetSymbolAddress(void** address, const void*) {
  static char place[4096];
  *address = place;
  return cudaSuccess;
}
DRY_EXPORT cudaError_t cudaMemcpyToSymbol(const void*, const void*, size_t, size_t, cudaMemcpyKind) {
  return cudaSuccess;
}
