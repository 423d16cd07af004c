// The CUDA runtime's calls about the device and about errors.
#include <cstdio>
#include <cstring>

#include "device.hpp"
#include "record.hpp"

namespace dry {
namespace {

thread_local int current = 0;
cudaError_t broken = cudaSuccess;

constexpr double kGiB = 79.1;  // cudaMemGetInfo()'s for an H100 of 80 GB
constexpr int kSharedPerBlock = 49152, kSharedOptIn = 232448, kSharedPerProcessor = 233472, kProcessors = 132;

int architecture() { return static_cast<int>(number("DRY_GPU_ARCH", 90)); }

}  // namespace

int device_count() { return static_cast<int>(number("DRY_GPU_DEVICES", 1)); }
size_t memory_bytes() { return static_cast<size_t>(number("DRY_GPU_MEMORY_GB", kGiB) * double{1 << 30}); }

cudaError_t state() { return broken; }
void break_device(cudaError_t error) {
  if (broken == cudaSuccess) broken = error;
}

}  // namespace dry

using namespace dry;

DRY_EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}
DRY_EXPORT cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return cudaSuccess;
}
DRY_EXPORT cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= device_count()) return cudaErrorInvalidDevice;
  current = device;
  return cudaSuccess;
}
DRY_EXPORT cudaError_t cudaDeviceSynchronize() {
  if (const auto error = allowed_in_capture("cudaDeviceSynchronize")) return error;
  host_waits("cudaDeviceSynchronize", all_work());
  return state();
}
DRY_EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = kProcessors;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = architecture() / 10;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = architecture() % 10;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = kSharedOptIn;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = kSharedPerProcessor;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = kSharedPerBlock;
      break;
    case cudaDevAttrWarpSize:
      *value = 32;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = 2048;
      break;
    case cudaDevAttrMaxGridDimX:
      *value = 2147483647;
      break;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
    case cudaDevAttrMaxRegistersPerBlock:
      *value = 65535;
      break;
    default:
      *value = 1;
  }
  return cudaSuccess;
}
DRY_EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "dry GPU");
  properties->totalGlobalMem = memory_bytes();
  properties->major = architecture() / 10;
  properties->minor = architecture() % 10;
  properties->multiProcessorCount = kProcessors;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->maxBlocksPerMultiProcessor = 32;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 2147483647;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
  properties->sharedMemPerBlock = kSharedPerBlock;
  properties->sharedMemPerBlockOptin = kSharedOptIn;
  properties->sharedMemPerMultiprocessor = kSharedPerProcessor;
  properties->l2CacheSize = 60 << 20;
  properties->memoryBusWidth = 6144;
  properties->textureAlignment = 512;
  properties->concurrentKernels = properties->unifiedAddressing = properties->cooperativeLaunch = 1;
  properties->asyncEngineCount = 3;
  return cudaSuccess;
}
DRY_EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
DRY_EXPORT cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}
DRY_EXPORT cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  std::snprintf(text, static_cast<size_t>(size), "0000:%02x:00.0", device);
  return cudaSuccess;
}
DRY_EXPORT cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
DRY_EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

DRY_EXPORT cudaError_t cudaGetLastError() { return state(); }
DRY_EXPORT cudaError_t cudaPeekAtLastError() { return state(); }
DRY_EXPORT const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaSuccess ? "cudaSuccess" : "an error of the dry GPU";
}
DRY_EXPORT const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureUnjoined:
      return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation:
      return "dependency created on uncaptured work in another stream";
    case cudaErrorStreamCaptureMerge:
      return "operation would result in a merge of separate capture sequences";
    default:
      return "invalid argument";
  }
}

// Functions of the driver are there and do nothing.
DRY_EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned, unsigned long long,
                                                        cudaDriverEntryPointQueryResult* result) {
  *function = reinterpret_cast<void*>(+[] { return 0; });
  if (result != nullptr) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
