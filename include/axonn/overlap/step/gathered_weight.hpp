#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <ATen/core/Tensor.h>
#include <c10/util/accumulate.h>

namespace axonn {

// A gathered weight on loan: the whole (X, Y) block, or those of a bundle, flat. The last copy
// returns the buffer to the pool, so never save the block for backward.
class GatheredWeight {
 public:
  GatheredWeight(at::Tensor block, std::shared_ptr<const void> loan)
      : block_(std::move(block)), loan_(std::move(loan)) {}
  const at::Tensor& operator*() const { return block_; }
  const at::Tensor* operator->() const { return &block_; }
  // One of several blocks in a flat one, on the same loan.
  GatheredWeight part(int64_t begin, at::IntArrayRef shape) const {
    return {block_.narrow(0, begin, c10::multiply_integers(shape)).view(shape), loan_};
  }

 private:
  at::Tensor block_;
  std::shared_ptr<const void> loan_;  // empty when the block lies in the arena itself
};

// Counts since the start of the program.
struct GatherCounters {
  int64_t gathers = 0;   // all-gathers of weights over Z
  int64_t blocking = 0;  // launched only when needed: the order was unknown, or the all-gather overlap is off
  int64_t useless = 0;   // gathered ahead but not needed: the order changed
};

}  // namespace axonn
