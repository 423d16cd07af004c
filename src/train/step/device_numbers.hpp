#pragma once

#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

namespace axonn {

// Tensors of a GPU on their way to pinned memory. The copies come after what the current stream has
// been given before, and the host does not wait for them until it reads.
class DeviceNumbers {
 public:
  explicit DeviceNumbers(const std::vector<at::Tensor>& tensors);  // at least one
  // In the given order. Waits for the copies only: not for work that came later.
  const std::vector<at::Tensor>& read();

 private:
  std::vector<at::Tensor> copies_;
  c10::Event copied_;
};

}  // namespace axonn
