#pragma once

#include "kernels/cpu/rms_norm_chains.hpp"

// The passes of an RMSNorm over rows of features of this rank, on any device: kernels of
// rms_norm_chains.hpp on CPUs, LibTorch's elsewhere, with the same arguments.
namespace axonn {

at::Tensor square_sums(const at::Tensor& input);
// The norm of whole rows: square_sums(), their roots, rms_normalised().
RmsNormed rms_norm(const at::Tensor& input, const at::Tensor& weight, double epsilon);
at::Tensor rms_normalised(const at::Tensor& input, const at::Tensor& roots, const at::Tensor& weight);
RmsGradientSums rms_gradient_sums(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& roots,
                                  const at::Tensor& weight);
at::Tensor rms_gradient(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& roots,
                        const at::Tensor& weight, const at::Tensor& means);

}  // namespace axonn
