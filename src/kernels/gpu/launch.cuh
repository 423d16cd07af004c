// How our kernels are launched. nvcc takes the first half; in tests/gpu/host g++ takes the second,
// and the kernel runs on the host.
#pragma once

#ifdef __CUDACC__

#include <string>

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "axonn/core/error.hpp"

namespace axonn {

struct LaunchSize {
  unsigned blocks;
  unsigned threads;
};

// On the current stream of CUDA device `device`. BackendError, which starts with `where`, if the
// launch fails.
template <typename... Parameters, typename... Arguments>
void launch(const char* where, int device, LaunchSize size, void (*kernel)(Parameters...),
            const Arguments&... arguments) {
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  kernel<<<size.blocks, size.threads, 0, c10::cuda::getCurrentCUDAStream().stream()>>>(arguments...);
  const cudaError_t result = cudaGetLastError();
  if (result != cudaSuccess)
    throw BackendError(where, std::string("launching a kernel: ") + cudaGetErrorString(result));
}

}  // namespace axonn

#else
#include "gpu/host/host_cuda.hpp"
#endif
