#pragma once

#include <span>

#include <ATen/core/Tensor.h>

#include "axonn/comm/communicator.hpp"
#include "axonn/layers/convolution_choice.hpp"

namespace axonn {

// One convolution: (b, h, w, k) with (n, 3, 3, k) -> (b, h, w, n), and its gradients: of the input
// from grad (b, h, w, n), of the weight (n, 3, 3, k), contiguous.
at::Tensor convolve(ConvolutionKernel kernel, const at::Tensor& input, const at::Tensor& weight);
at::Tensor convolve_input_gradient(ConvolutionKernel kernel, const at::Tensor& grad, const at::Tensor& weight);
at::Tensor convolve_weight_gradient(ConvolutionKernel kernel, const at::Tensor& grad, const at::Tensor& input);

// Measures the shapes that `known` lacks, with up to `images` images, on all ranks at the same
// time, and returns `known` with what was fastest on rank 0 of `everyone`. Takes some tenths of a
// second per shape; every rank calls it, with the same arguments. It returns {} at once where there
// is no choice (a GPU, 16-bit types).
ConvolutionChoice choose_convolutions(Communicator& everyone, std::span<const ConvolutionShape> shapes, int64_t images,
                                      at::ScalarType dtype, c10::Device device, ConvolutionChoice known = {});

}  // namespace axonn
