#pragma once

#include <ATen/core/Tensor.h>

// axonn/layers/gelu.hpp on CPUs: input and grad (..., n), bias (n), all of one type. A row is one
// call of a stage chain.
namespace axonn {

at::Tensor gelu_on_cpu(const at::Tensor& input, const at::Tensor& bias);

struct GeluGradient {
  at::Tensor input;
  at::Tensor bias_sums;  // (blocks of rows, n): their sum is the bias's gradient; fp32, or fp64 for fp64
};
GeluGradient gelu_gradient_on_cpu(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& bias);

}  // namespace axonn
