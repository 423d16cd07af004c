// Questions of cuda_kernels_test to the device beside kernel_memory.hpp.
#pragma once

#include <cstdint>
#include <string>

namespace kernel_test {

// Takes CUDA device 0. Returns why there is none; nothing if there is one.
std::string take_device();

// Values without guard bytes from now on: memory ends with them. So memcheck sees what reads
// behind them, which guard bytes do not show.
void use_no_guard_bytes();

// Whether a kernel broke the device: nothing runs on it any more for this process.
bool device_is_lost();

// Of kernels, so far.
int64_t launches();

}  // namespace kernel_test
