// Device memory is address space that nobody may touch: whoever does so is ended by a signal.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include <sys/mman.h>

#include "device.hpp"
#include "record.hpp"

namespace dry {
namespace {

// Blocks by their first address.
using Blocks = std::map<const char*, size_t>;

struct Memory {
  Blocks device, pinned;
  size_t used = 0, peak = 0;
  long long allocations = 0;
};

Memory& memory() {
  static Memory* const the = new Memory;
  return *the;
}

bool holds(const Blocks& blocks, const void* address) {
  const auto* at = static_cast<const char*>(address);
  auto found = blocks.upper_bound(at);
  if (found == blocks.begin()) return false;
  --found;
  return at < found->first + found->second;
}

struct AtEnd {
  ~AtEnd() {
    const std::lock_guard lock(mutex());
    write("end", join(memory().allocations, memory().peak));
  }
} at_end;

// A number that came from the device: 4, so that a norm is larger than what clips it.
void read_from_device(void* to, size_t bytes) {
  std::memset(to, 0, bytes);
  if (bytes != sizeof(double) && bytes != sizeof(float)) return;
  const double wide = fails("number") ? std::numeric_limits<double>::quiet_NaN() : 4;
  const auto narrow = static_cast<float>(wide);
  if (bytes == sizeof wide) std::memcpy(to, &wide, bytes);
  if (bytes == sizeof narrow) std::memcpy(to, &narrow, bytes);
}

const char* kind_of(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return "HtoD";
    case cudaMemcpyDeviceToHost:
      return "DtoH";
    case cudaMemcpyDeviceToDevice:
      return "DtoD";
    default:
      return "HtoH";
  }
}

void copied(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const std::lock_guard lock(mutex());
  const void* const host = kind == cudaMemcpyHostToDevice ? from : to;
  const bool pageable = kind != cudaMemcpyDeviceToDevice && !holds(memory().pinned, host);
  write("copy", join(kind_of(kind), bytes, pageable ? "pageable" : "pinned", number_of(stream)));
  if (kind == cudaMemcpyDeviceToHost) read_from_device(to, bytes);
  if (kind == cudaMemcpyHostToHost) std::memcpy(to, from, bytes);
}

}  // namespace

bool is_device_memory(const void* address) {
  const std::lock_guard lock(mutex());
  return holds(memory().device, address);
}
bool is_pinned(const void* address) {
  const std::lock_guard lock(mutex());
  return holds(memory().pinned, address);
}

}  // namespace dry

using namespace dry;

DRY_EXPORT cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  if (const auto error = allowed_in_capture("cudaMalloc")) return error;
  const std::lock_guard lock(mutex());
  if (fails("cudaMalloc") || memory().used + bytes > memory_bytes()) return cudaErrorMemoryAllocation;
  void* const block = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED) return cudaErrorMemoryAllocation;
  memory().device[static_cast<char*>(block)] = bytes;
  memory().used += bytes;
  memory().peak = std::max(memory().peak, memory().used);
  ++memory().allocations;
  write("allocate", join(bytes));
  *pointer = block;
  return state();
}
DRY_EXPORT cudaError_t cudaFree(void* pointer) {
  if (pointer == nullptr) return state();
  if (const auto error = allowed_in_capture("cudaFree")) return error;
  host_waits("cudaFree", all_work());
  const std::lock_guard lock(mutex());
  const auto found = memory().device.find(static_cast<char*>(pointer));
  if (found == memory().device.end()) return cudaErrorInvalidValue;
  munmap(pointer, found->second);
  memory().used -= found->second;
  memory().device.erase(found);
  return state();
}
DRY_EXPORT cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const std::lock_guard lock(mutex());
  *total = memory_bytes();
  *free = *total - memory().used;
  return state();
}
DRY_EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  *attributes = {};
  attributes->type = is_device_memory(pointer) ? cudaMemoryTypeDevice
                     : is_pinned(pointer)      ? cudaMemoryTypeHost
                                               : cudaMemoryTypeUnregistered;
  if (attributes->type == cudaMemoryTypeDevice) attributes->devicePointer = const_cast<void*>(pointer);
  return state();
}

DRY_EXPORT cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  if (const auto error = allowed_in_capture("cudaHostAlloc")) return error;
  const size_t page = 4096;
  *pointer = std::aligned_alloc(page, std::max(page, (bytes + page - 1) / page * page));
  const std::lock_guard lock(mutex());
  memory().pinned[static_cast<char*>(*pointer)] = bytes;
  write("pin", join(bytes));
  return state();
}
DRY_EXPORT cudaError_t cudaFreeHost(void* pointer) {
  const std::lock_guard lock(mutex());
  memory().pinned.erase(static_cast<char*>(pointer));
  std::free(pointer);
  return state();
}
DRY_EXPORT cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned) {
  const std::lock_guard lock(mutex());
  memory().pinned[static_cast<char*>(pointer)] = bytes;
  write("pin", join(bytes));
  return state();
}
DRY_EXPORT cudaError_t cudaHostUnregister(void* pointer) {
  const std::lock_guard lock(mutex());
  memory().pinned.erase(static_cast<char*>(pointer));
  return state();
}

DRY_EXPORT cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                                       cudaStream_t stream) {
  copied(to, from, bytes, kind, stream);
  return work(stream);
}
DRY_EXPORT cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (const auto error = allowed_in_capture("cudaMemcpy")) return error;
  host_waits("cudaMemcpy", all_work());
  copied(to, from, bytes, kind, nullptr);
  return work(nullptr);
}
DRY_EXPORT cudaError_t cudaMemset(void*, int, size_t bytes) {
  write("memset", join(bytes, 0));
  return work(nullptr);
}
DRY_EXPORT cudaError_t cudaMemsetAsync(void*, int, size_t bytes, cudaStream_t stream) {
  write("memset", join(bytes, number_of(stream)));
  return work(stream);
}
