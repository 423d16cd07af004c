#include <cstring>
#include <new>

#include <gtest/gtest.h>

#include "gpu/host/host_cuda.hpp"
#include "gpu/kernels/kernel_memory.hpp"

namespace kernel_test {

size_t guard_bytes() { return 0; }

std::byte* allocate(size_t bytes) { return static_cast<std::byte*>(::operator new(bytes)); }
void release(std::byte* memory, size_t) { ::operator delete(memory); }
void copy_to_kernels(std::byte* to, const std::byte* from, size_t bytes) { std::memcpy(to, from, bytes); }
void copy_from_kernels(std::byte* to, const std::byte* from, size_t bytes) { std::memcpy(to, from, bytes); }

bool kernels_run() { return true; }

void in_each_order(const Runs& runs, const std::function<void()>& pass) {
  constexpr const char* kNames[] = {"ascending", "descending", "odd first"};
  for (int i = 0; i < runs.on_host; ++i) {
    host_cuda::order = host_cuda::kOrders[i];
    const testing::ScopedTrace trace(__FILE__, __LINE__, kNames[static_cast<int>(host_cuda::order)]);
    pass();
  }
}

}  // namespace kernel_test
