#pragma once

#include <cstdint>
#include <string>

#include <c10/core/Device.h>

namespace axonn {

// Peak bytes of tensors on a CUDA device in this process.
int64_t peak_cuda_bytes(c10::Device device);

std::string cuda_name(c10::Device device);  // "NVIDIA H100 80GB HBM3"

}  // namespace axonn
