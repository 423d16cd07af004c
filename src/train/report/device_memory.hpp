#pragma once

#include <cstdint>

#include <c10/core/Device.h>

namespace axonn {

// Most bytes that tensors on a CUDA device have held at once in this process.
int64_t peak_cuda_bytes(c10::Device device);

}  // namespace axonn
