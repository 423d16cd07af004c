#pragma once

#include <ATen/core/Tensor.h>

// axonn/layers/norms/rms_norm.hpp on CPUs: input and grad (..., n) and weight (n) of one type, a
// number per row (..., 1) in fp32, or fp64 for fp64. A row is one call of a stage chain.
namespace axonn {

at::Tensor square_sums_on_cpu(const at::Tensor& input);  // (..., 1)

// A norm of whole rows, in one pass, with the bits of the two functions around it.
struct RmsNormed {
  at::Tensor output;
  at::Tensor roots;  // (..., 1): 1 / sqrt(mean of squares + epsilon)
};
RmsNormed rms_norm_on_cpu(const at::Tensor& input, const at::Tensor& weight, double epsilon);

// input * roots * weight
at::Tensor rms_normalised_on_cpu(const at::Tensor& input, const at::Tensor& roots, const at::Tensor& weight);

struct RmsGradientSums {
  at::Tensor rows;     // (..., 1): sums of grad * weight * normalised input
  at::Tensor weights;  // (blocks of rows, n): their sum is the weight's gradient
};
RmsGradientSums rms_gradient_sums_on_cpu(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& roots,
                                         const at::Tensor& weight);

// (grad * weight - normalised input * means) * roots; means: those sums over all features, divided
// by their number.
at::Tensor rms_gradient_on_cpu(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& roots,
                               const at::Tensor& weight, const at::Tensor& means);

}  // namespace axonn
