#include "kernels/cpu/winograd_convolution.hpp"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "layers/layer_fixture.hpp"

namespace axonn {
namespace {

using namespace test;

// Output and gradients against LibTorch's convolution, for images (b, h, w, k).
void expect_equals_direct(at::IntArrayRef image, int64_t out, at::ScalarType dtype, GemmKernel product,
                          double tolerance) {
  const at::Tensor input = whole_tensor(1, image).to(dtype).requires_grad_();
  const at::Tensor weight = whole_tensor(2, {out, 3, 3, image[3]}).to(dtype).requires_grad_();
  const at::Tensor output =
      at::conv2d(input.permute({0, 3, 1, 2}), weight.permute({0, 3, 1, 2}), {}, 1, 1).permute({0, 2, 3, 1});
  const at::Tensor grad = whole_tensor(3, output.sizes()).to(dtype);
  output.backward(grad);

  const at::NoGradGuard no_grad;
  const auto expect_close = [&](const at::Tensor& got, const at::Tensor& expected, const char* what) {
    ASSERT_EQ(got.sizes(), expected.sizes()) << what << " of " << image;
    EXPECT_LE((got - expected).abs().max().item<double>(), tolerance * expected.abs().max().item<double>())
        << what << " of " << image;
  };
  expect_close(winograd_convolution(input, weight, product), output, "output");
  expect_close(winograd_input_gradient(grad, weight, product), input.grad(), "input gradient");
  expect_close(winograd_weight_gradient(grad, input, product), weight.grad(), "weight gradient");
}

TEST(WinogradConvolution, EqualsTheDirectOne) {
  for (const auto& image :
       std::vector<std::vector<int64_t>>{{1, 1, 1, 1}, {2, 3, 5, 7}, {3, 8, 8, 16}, {5, 14, 10, 33}, {2, 32, 32, 20}}) {
    expect_equals_direct(image, 1, at::kDouble, GemmKernel::mm, 1e-14);
    expect_equals_direct(image, 17, at::kDouble, GemmKernel::mm, 1e-14);
    expect_equals_direct(image, 17, at::kFloat, GemmKernel::mm, 5e-6);
    expect_equals_direct(image, 17, at::kFloat, GemmKernel::onednn, 5e-6);
  }
}

// On 3 threads a product of oneDNN takes 384 tiles, on one 1024.
TEST(WinogradConvolution, IsTheSameOnAnyNumberOfThreads) {
  const int threads = at::get_num_threads();
  for (const auto& [dtype, product] :
       {std::pair{at::kDouble, GemmKernel::mm}, {at::kFloat, GemmKernel::mm}, {at::kFloat, GemmKernel::onednn}}) {
    const at::Tensor input = whole_tensor(1, {18, 16, 16, 12}).to(dtype),
                     weight = whole_tensor(2, {8, 3, 3, 12}).to(dtype);
    at::set_num_threads(3);
    const at::Tensor several = winograd_convolution(input, weight, product),
                     gradient = winograd_weight_gradient(several, input, product);
    at::set_num_threads(1);
    const at::Tensor one = winograd_convolution(input, weight, product);
    if (product == GemmKernel::mm || at::get_cpu_capability() == "AVX512") {
      EXPECT_TRUE(at::equal(one, several));
    }
    EXPECT_LE((one - several).abs().max().item<double>(), 5e-6 * several.abs().max().item<double>());
    const at::Tensor difference = winograd_weight_gradient(several, input, product) - gradient;
    EXPECT_LE(difference.abs().max().item<double>(),
              (dtype == at::kDouble ? 1e-14 : 5e-6) * gradient.abs().max().item<double>());
  }
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace axonn
