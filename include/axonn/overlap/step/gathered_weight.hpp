#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <ATen/core/Tensor.h>

namespace axonn {

// A gathered weight on loan: the whole (X, Y) block. The buffer goes back to the pool with the last copy, so never save it for backward.
class GatheredWeight {
 public:
  GatheredWeight(at::Tensor block, std::shared_ptr<const void> loan) : block_(std::move(block)), loan_(std::move(loan)) {}
  const at::Tensor& operator*() const { return block_; }
  const at::Tensor* operator->() const { return &block_; }

 private:
  at::Tensor block_;
  std::shared_ptr<const void> loan_;  // empty when the block lies in the arena itself
};

// Since the program began.
struct GatherCounters {
  int64_t gathers = 0;   // of weights over Z
  int64_t blocking = 0;  // those asked for when they were needed: the order was not known, or ahead is off
  int64_t useless = 0;   // gathered ahead and not needed: the order changed
};

}  // namespace axonn
