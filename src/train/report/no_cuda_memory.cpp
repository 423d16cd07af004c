#include "axonn/core/error.hpp"
#include "train/report/device_memory.hpp"

namespace axonn {

int64_t peak_cuda_bytes(c10::Device device) {
  throw BackendError("train.device_memory", "this build has no CUDA, so nothing lies on " + device.str());
}

std::string cuda_name(c10::Device device) {
  throw BackendError("train.device_memory", "this build has no CUDA, so nothing lies on " + device.str());
}

}  // namespace axonn
