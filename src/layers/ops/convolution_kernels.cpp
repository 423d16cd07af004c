#include "axonn/layers/ops/convolution_kernels.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include "axonn/layers/gemm.hpp"
#include "layers/medians_in_turn.hpp"
#include "layers/ops/image.hpp"
#include "layers/ops/winograd_convolution.hpp"

namespace axonn {
namespace {

using at::Tensor;

constexpr std::array kKernels = {ConvolutionKernel::direct, ConvolutionKernel::winograd,
                                 ConvolutionKernel::winograd_onednn};

GemmKernel product_of(ConvolutionKernel kernel) {
  return kernel == ConvolutionKernel::winograd_onednn ? GemmKernel::onednn : GemmKernel::mm;
}

std::tuple<Tensor, Tensor, Tensor> direct_gradients(const Tensor& grad, const Tensor& input, const Tensor& weight,
                                                    std::array<bool, 3> wanted) {
  return at::convolution_backward(channels_second(grad), channels_second(input), channels_second(weight), std::nullopt,
                                  /*stride=*/{1, 1}, /*padding=*/{1, 1}, /*dilation=*/{1, 1}, /*transposed=*/false,
                                  at::IntArrayRef{0, 0}, /*groups=*/1, wanted);
}

// The convolutions of one shape as they are measured.
struct Sample {
  Tensor input, weight, grad;

  void run(ConvolutionKernel kernel, ConvolutionUse use) const {
    switch (use) {
      case ConvolutionUse::output:
        convolve(kernel, input, weight);
        return;
      case ConvolutionUse::grad_input:
        convolve_input_gradient(kernel, grad, weight);
        return;
      default:
        convolve_weight_gradient(kernel, grad, input);
    }
  }
};

// Enough images to fill the threads, but no more than are needed to see which kernel is faster.
Sample sample_of(const ConvolutionShape& shape, int64_t images, at::ScalarType dtype) {
  const int64_t enough = kMostTilesAtOnce * at::get_num_threads() * 4 / (shape.height * shape.width);
  const int64_t batch = std::clamp<int64_t>(enough, 1, std::max<int64_t>(images, 1));
  return {.input = at::ones({batch, shape.height, shape.width, shape.in}, dtype),
          .weight = at::ones({shape.out, 3, 3, shape.in}, dtype),
          .grad = at::ones({batch, shape.height, shape.width, shape.out}, dtype)};
}

ConvolutionKernel fastest_kernel(const Sample& sample, ConvolutionUse use) {
  constexpr double kWorthIt = 0.95;  // an earlier one is kept when both are about equal
  std::vector<ConvolutionKernel> kernels;
  std::vector<std::function<void()>> works;
  for (const ConvolutionKernel kernel : kKernels) {
    if (!convolution_available(kernel, sample.input.scalar_type(), c10::kCPU)) continue;
    kernels.push_back(kernel);
    works.emplace_back([&sample, kernel, use] { sample.run(kernel, use); });
  }
  const std::vector<double> seconds = medians_in_turn(works);
  size_t best = 0;
  for (size_t i = 1; i < kernels.size(); ++i)
    if (seconds[i] < kWorthIt * seconds[best]) best = i;
  return kernels[best];
}

}  // namespace

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

ConvolutionChoice choose_convolutions(Communicator& everyone, std::span<const ConvolutionShape> shapes, int64_t images,
                                      at::ScalarType dtype, c10::Device device, ConvolutionChoice known) {
  if (!convolution_available(ConvolutionKernel::winograd, dtype, device)) return {};
  const at::NoGradGuard no_grad;
  for (const ConvolutionShape& shape : shapes) {
    if (known.knows(shape)) continue;
    const Sample sample = sample_of(shape, images, dtype);
    const Tensor chosen = at::empty({static_cast<int64_t>(kConvolutionUses.size())}, at::kLong);
    for (const ConvolutionUse use : kConvolutionUses)
      chosen.mutable_data_ptr<int64_t>()[static_cast<size_t>(use)] = static_cast<int64_t>(fastest_kernel(sample, use));
    everyone.broadcast(chosen, 0).wait();
    for (const ConvolutionUse use : kConvolutionUses)
      known.set(use, shape, kKernels[static_cast<size_t>(chosen.const_data_ptr<int64_t>()[static_cast<size_t>(use)])]);
  }
  return known;
}

}  // namespace axonn
