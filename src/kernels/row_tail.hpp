#pragma once

#include <optional>

#include <ATen/core/Tensor.h>

#include "axonn/comm/communicator.hpp"
#include "kernels/dropout_draw.hpp"

namespace axonn {

// Follows the sum of a row-parallel product (rows, width): residual + mask * (sum + bias). Each may
// be missing, and each step rounds to the tensor's type. Both forms below have the same bits.
class RowTail {
 public:
  // `at_once`: on a GPU, two steps and more are one launch, which rounds once.
  RowTail(std::optional<DropoutDraw> dropout, at::Tensor residual, bool at_once)
      : dropout_(std::move(dropout)), residual_(std::move(residual)), at_once_(at_once) {}

  // All of it, in place, on any device.
  void apply(at::Tensor sums, const at::Tensor& bias);
  // Whether a bias is better left to apply() than added by the product before.
  bool takes_bias(const at::Tensor& sums) const;
  // For some elements at their owner (Communicator::fused), on a CPU. It keeps what it reads alive.
  Epilogue at_owner(const at::Tensor& bias, at::ScalarType dtype, int64_t width) const;
  // The gradient of the sum, where `grad` is that of the result and of the residual.
  at::Tensor gradient(const at::Tensor& grad);
  void release_residual() { residual_.reset(); }
  void release() { mask_.reset(), residual_.reset(); }

 private:
  const at::Tensor& mask(const at::Tensor& like);
  void apply_at_once(const at::Tensor& sums, const at::Tensor& bias);

  const std::optional<DropoutDraw> dropout_;
  at::Tensor residual_;
  const bool at_once_;
  at::Tensor mask_;  // kept for backward once it is drawn
};

}  // namespace axonn
