#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

namespace axonn {

// What a model brings to the trainer: samples by number, their loss, a validation. Every rank of the grid calls each in the same order.
class TrainTask {
 public:
  virtual ~TrainTask() = default;

  virtual int64_t tokens_per_sample() const = 0;      // terms of a sample's loss
  virtual double flops_per_sample() const = 0;        // model FLOPs of forward and backward
  virtual double paper_flops_per_sample() const = 0;  // as papers count them: a recomputation of every layer included
  // Sum of the loss over samples [first, first + count), under autograd; a scalar, the same on X and Y.
  virtual at::Tensor loss_sum(int64_t first, int64_t count) = 0;
  // Mean loss over everything held out, the same on every rank; nothing when nothing is held out.
  virtual std::optional<double> validate() = 0;
};

}  // namespace axonn
