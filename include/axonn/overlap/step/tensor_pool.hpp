#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

namespace axonn {

// Flat buffers on loan, so that a steady state allocates nothing. Used only by the host thread.
class TensorPool {
 public:
  // A buffer of at least `numel` elements. Return it with give_back(), as the same tensor.
  at::Tensor take(int64_t numel, const at::TensorOptions& options);
  void give_back(at::Tensor buffer);

  int64_t allocations() const { return allocations_; }  // buffers allocated so far
  int64_t bytes() const { return bytes_; }              // bytes of all buffers allocated so far

 private:
  std::vector<at::Tensor> free_;
  int64_t allocations_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace axonn
