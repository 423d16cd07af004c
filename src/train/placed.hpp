#pragma once

#include <ATen/core/Tensor.h>

namespace axonn {

// A tensor of the host on `device`. The host does not wait for the copy to a GPU: it goes through
// pinned memory, which LibTorch keeps until the copy is done.
inline at::Tensor placed(const at::Tensor& tensor, c10::Device device) {
  return device.is_cpu() ? tensor : tensor.pin_memory().to(device, /*non_blocking=*/true);
}

}  // namespace axonn
