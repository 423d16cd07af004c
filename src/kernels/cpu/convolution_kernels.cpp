#include "axonn/kernels/cpu/convolution_kernels.hpp"

#include <array>
#include <utility>

#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>

#include "axonn/kernels/cpu/gemm.hpp"
#include "kernels/cpu/image.hpp"
#include "kernels/cpu/winograd_convolution.hpp"

namespace axonn {
namespace {

using at::Tensor;

GemmKernel product_of(ConvolutionKernel kernel) {
  return kernel == ConvolutionKernel::winograd_onednn ? GemmKernel::onednn : GemmKernel::mm;
}

std::tuple<Tensor, Tensor, Tensor> direct_gradients(const Tensor& grad, const Tensor& input, const Tensor& weight,
                                                    std::array<bool, 3> wanted) {
  return at::convolution_backward(channels_second(grad), channels_second(input), channels_second(weight), std::nullopt,
                                  /*stride=*/{1, 1}, /*padding=*/{1, 1}, /*dilation=*/{1, 1}, /*transposed=*/false,
                                  at::IntArrayRef{0, 0}, /*groups=*/1, wanted);
}

}  // namespace

bool convolution_available(ConvolutionKernel kernel, at::ScalarType dtype, c10::Device device) {
  if (kernel == ConvolutionKernel::direct) return true;
  if (!device.is_cpu() || (dtype != at::kFloat && dtype != at::kDouble)) return false;
  return kernel == ConvolutionKernel::winograd || gemm_available(GemmKernel::onednn, dtype, device);
}

Tensor convolve(ConvolutionKernel kernel, const Tensor& input, const Tensor& weight) {
  if (kernel != ConvolutionKernel::direct) return winograd_convolution(input, weight, product_of(kernel));
  return channels_last(at::convolution(channels_second(input), channels_second(weight), {}, {1, 1}, {1, 1}, {1, 1},
                                       /*transposed=*/false, {0, 0}, /*groups=*/1));
}

Tensor convolve_input_gradient(ConvolutionKernel kernel, const Tensor& grad, const Tensor& weight) {
  if (kernel != ConvolutionKernel::direct) return winograd_input_gradient(grad, weight, product_of(kernel));
  // LibTorch reads only its sizes.
  const Tensor input = at::empty({grad.size(0), grad.size(1), grad.size(2), weight.size(3)}, grad.options());
  return channels_last(std::get<0>(direct_gradients(grad, input, weight, {true, false, false})));
}

Tensor convolve_weight_gradient(ConvolutionKernel kernel, const Tensor& grad, const Tensor& input) {
  if (kernel != ConvolutionKernel::direct) return winograd_weight_gradient(grad, input, product_of(kernel));
  const Tensor weight = at::empty({grad.size(3), 3, 3, input.size(3)}, input.options());
  return channels_last(std::get<1>(direct_gradients(grad, input, weight, {false, true, false})));
}

}  // namespace axonn
