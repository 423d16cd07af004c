#include "train/step/device_numbers.hpp"

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace axonn {

DeviceNumbers::DeviceNumbers(const std::vector<at::Tensor>& tensors) : copied_(tensors.front().device().type()) {
  for (const at::Tensor& tensor : tensors) {
    copies_.push_back(at::empty(tensor.sizes(), tensor.options().device(at::kCPU).pinned_memory(true)));
    copies_.back().copy_(tensor, /*non_blocking=*/true);
  }
  const c10::Device device = tensors.front().device();
  copied_.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

const std::vector<at::Tensor>& DeviceNumbers::read() {
  copied_.synchronize();
  return copies_;
}

}  // namespace axonn
