#pragma once

#include <cstdint>

#include <c10/core/ScalarType.h>

namespace axonn {

// `count` standard normal numbers: number i by the Philox block `first` + i of this stream.
struct DeviceNoise {
  uint64_t seed = 0;
  uint32_t stream = 0;
  int64_t first = 0;
  int64_t count = 0;
};

// Fills `out`, in CUDA device memory, by a kernel on the current stream: computed in fp64 as
// to_normal(), then rounded to `type` (fp64 or fp32). BackendError if the launch fails or CUDA is
// not built in.
void fill_cuda_noise(void* out, c10::ScalarType type, const DeviceNoise& noise, int device);

}  // namespace axonn
