#pragma once

#include <cstdint>

#include <c10/core/Device.h>

namespace axonn {

// Peak bytes of tensors on a CUDA device in this process.
int64_t peak_cuda_bytes(c10::Device device);

}  // namespace axonn
