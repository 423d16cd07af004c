// The place where a kernel runs, and its memory. host_memory.cpp is for kernels that the C++
// compiler compiled, device_memory.cpp for those of nvcc on CUDA device 0. The tests do not know
// which one they are linked with.
#pragma once

#include <cstddef>
#include <functional>

namespace kernel_test {

// Between a kernel's values and whatever else is in memory, on either side. 0 on the host, where
// the address sanitizer knows where memory ends.
size_t guard_bytes();

std::byte* allocate(size_t bytes);
void release(std::byte* memory, size_t bytes);
void copy_to_kernels(std::byte* to, const std::byte* from, size_t bytes);
// Waits for kernels. std::runtime_error if one of them broke the device.
void copy_from_kernels(std::byte* to, const std::byte* from, size_t bytes);

// Whether kernels run. The dry GPU writes them down and runs none.
bool kernels_run();

// How often a case runs: on the host in so many of the three orders of a block's threads, on a
// device in its own order.
struct Runs {
  int on_host = 3;
  int on_device = 2;
};
constexpr Runs kLarge{.on_host = 1};  // for work that takes the host long
void in_each_order(const Runs& runs, const std::function<void()>& pass);

}  // namespace kernel_test
