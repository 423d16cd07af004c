#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "axonn/core/names.hpp"

namespace axonn {

// How a 3x3 convolution of stride 1, padded by 1, is computed on a CPU: as LibTorch does (oneDNN),
// or in Winograd's way (kernels/cpu/winograd_convolution.hpp) with one of two matrix products, in
// fp32 (both) and fp64 (mm only). They round differently.
enum class ConvolutionKernel : uint8_t { direct, winograd, winograd_onednn };

template <>
struct Names<ConvolutionKernel> {
  static constexpr Named<ConvolutionKernel> all[] = {{"direct", ConvolutionKernel::direct},
                                                     {"winograd", ConvolutionKernel::winograd},
                                                     {"winograd-onednn", ConvolutionKernel::winograd_onednn}};
};

bool convolution_available(ConvolutionKernel kernel, at::ScalarType dtype, c10::Device device);

// One convolution: (b, h, w, k) with (n, 3, 3, k) -> (b, h, w, n), and its gradients: of the input
// from grad (b, h, w, n), of the weight (n, 3, 3, k), contiguous.
at::Tensor convolve(ConvolutionKernel kernel, const at::Tensor& input, const at::Tensor& weight);
at::Tensor convolve_input_gradient(ConvolutionKernel kernel, const at::Tensor& grad, const at::Tensor& weight);
at::Tensor convolve_weight_gradient(ConvolutionKernel kernel, const at::Tensor& grad, const at::Tensor& input);

}  // namespace axonn
