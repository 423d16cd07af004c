#pragma once

#include <ATen/core/Tensor.h>

#include "axonn/kernels/cpu/gemm.hpp"

// A 3x3 convolution of stride 1, padded by 1, with 2.25 times fewer products: Winograd's minimal
// filtering F(2x2, 3x3) (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016,
// section 4.1). A tile of 2x2 output pixels sees 4x4 input pixels. Both are transformed to 16
// places, only by sums and differences. At each place the convolution is a matrix product. The
// gradients are the transposes of the same steps. Equal up to the rounding of these sums: about the
// unit roundoff of the type.
//
// Shapes: input (b, h, w, k), weight (n, 3, 3, k), output (b, h, w, n), as in conv2d.hpp.
namespace axonn {

// On a CPU, in fp32 and fp64. `product` multiplies at the places: mm as batched products of few
// tiles, which stay in the cache; onednn (fp32 only) of many tiles, where it is faster. Output and
// input gradient have equal bits on any number of threads, with onednn only where the processor has
// AVX-512: elsewhere its bits depend on the number of rows of a product.
inline constexpr int64_t kMostTilesAtOnce = 1024;

at::Tensor winograd_convolution(const at::Tensor& input, const at::Tensor& weight, GemmKernel product);
at::Tensor winograd_input_gradient(const at::Tensor& grad, const at::Tensor& weight, GemmKernel product);
at::Tensor winograd_weight_gradient(const at::Tensor& grad, const at::Tensor& input, GemmKernel product);

}  // namespace axonn
