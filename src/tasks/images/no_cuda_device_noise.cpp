#include "axonn/core/error.hpp"
#include "tasks/images/device_noise.hpp"

namespace axonn {

void fill_cuda_noise(void*, c10::ScalarType, const DeviceNoise&, int) {
  throw BackendError("model.noise", "this build has no CUDA, so it has no kernel device-noise; use preset cuda");
}

}  // namespace axonn
