#include "kernels/gpu/gpu_code.hpp"

#include <algorithm>

#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr int kBuilt[] = {AXONN_CUDA_ARCHITECTURES};  // 80 is sm_80; 0: not known

}  // namespace

void check_gpu_code(int device) {
  cudaDeviceProp properties{};
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  const int least = std::ranges::min(kBuilt), kind = 10 * properties.major + properties.minor;
  AXONN_CHECK(kind >= least, "layers.context", "GPU ", device, ", ", properties.name, ", is of kind sm_", kind,
              ", and this build has code from sm_", least, " on; configure with -DCMAKE_CUDA_ARCHITECTURES=", kind,
              ", or take a newer GPU (CUDA_VISIBLE_DEVICES chooses)");
}

}  // namespace axonn
