#pragma once

#include <ATen/core/Tensor.h>

namespace axonn {

// Copies between a device and host memory of any kind, through two small pieces of pinned memory:
// at the full speed of the bus, and without pinned memory of the tensor's size. The host waits.

// The same numbers in host memory.
at::Tensor copied_to_host(const at::Tensor& tensor);

// `place` is contiguous, of the same size and type.
void copy_to_device(const at::Tensor& host, const at::Tensor& place);

}  // namespace axonn
