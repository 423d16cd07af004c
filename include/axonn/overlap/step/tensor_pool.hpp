#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

namespace axonn {

// Flat buffers on loan, so that a steady state allocates nothing. Used by the host thread alone.
class TensorPool {
 public:
  // At least `numel` elements; returned by give_back() with the same tensor.
  at::Tensor take(int64_t numel, const at::TensorOptions& options);
  void give_back(at::Tensor buffer);

  int64_t allocations() const { return allocations_; }  // buffers ever made
  int64_t bytes() const { return bytes_; }              // of all buffers ever made

 private:
  std::vector<at::Tensor> free_;
  int64_t allocations_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace axonn
