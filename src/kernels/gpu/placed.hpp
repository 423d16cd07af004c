#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>

namespace axonn {

// The host does not wait for copies to a GPU: they go through pinned memory, which LibTorch keeps
// until the copy is done.

// A tensor of the host or of `device`, on `device`.
inline at::Tensor placed(const at::Tensor& tensor, c10::Device device) {
  if (tensor.device().type() == device.type()) return tensor;
  return (tensor.is_pinned() ? tensor : tensor.pin_memory()).to(device, /*non_blocking=*/true);
}

// A tensor of any device in host memory, from which placed() takes it back. The host cannot read it
// before the device has come so far.
inline at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  at::Tensor host = at::empty_like(tensor, tensor.options().device(at::kCPU).pinned_memory(true));
  host.copy_(tensor, /*non_blocking=*/true);
  return host;
}

// Puts a tensor of the host or of the device of `place` into `place`, which has its size and type.
inline void put(const at::Tensor& tensor, const at::Tensor& place) {
  const bool moves = tensor.is_cpu() && !place.is_cpu();
  place.copy_(moves ? tensor.pin_memory() : tensor, /*non_blocking=*/true);
}

}  // namespace axonn
