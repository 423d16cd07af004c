#pragma once

#include <ATen/core/Tensor.h>

// axonn/layers/swiglu.hpp on CPUs: hidden (..., 2 n) = gate|value, grad (..., n), all of one type.
// A row is one call of a stage chain.
namespace axonn {

at::Tensor swiglu_on_cpu(const at::Tensor& hidden);

// The gradient of `hidden`.
at::Tensor swiglu_gradient_on_cpu(const at::Tensor& grad, const at::Tensor& hidden);

}  // namespace axonn
