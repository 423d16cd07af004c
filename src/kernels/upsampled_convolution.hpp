#pragma once

#include <ATen/core/Tensor.h>

// A 3x3 convolution, padded by 1, of an image that is first doubled by repeating every pixel
// (nearest neighbours). It is computed from the small image, with less than half of the products.
// An output pixel sees only 2x2 different pixels. So each of the four places of a 2x2 block of
// outputs has its own 2x2 kernel: sums of the weight's rows and columns. Equal up to the rounding
// of these sums.
//
// Shapes: input (b, h, w, k), weight (n, 3, 3, k), output (b, 2h, 2w, n), as in conv2d.hpp.
namespace axonn {

at::Tensor upsampled_convolution(const at::Tensor& input, const at::Tensor& weight);
at::Tensor upsampled_input_gradient(const at::Tensor& grad, const at::Tensor& weight);
at::Tensor upsampled_weight_gradient(const at::Tensor& grad, const at::Tensor& input);

}  // namespace axonn
