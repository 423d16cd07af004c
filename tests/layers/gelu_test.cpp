// GELU with the bias of the layer before it, against LibTorch in fp64.
#include "axonn/layers/gelu.hpp"

#include <ATen/Parallel.h>

#include "axonn/layers/linear.hpp"
#include "layers/layer_fixture.hpp"
#include "kernels/cpu/gelu_chains.hpp"

namespace axonn {
namespace {

using namespace test;

TEST(GeluOnEveryGrid, AddsTheBiasOfTheLayerAndSumsItsGradient) {
  for (const GridShape& grid : every_grid())
    for (const int64_t out : {12, 17}) {
      Context context = context_on(grid);
      Linear layer(context, {.in = 10, .out = out, .adds_bias = false});
      const Parameters parameters = context.materialize(*layer, 1);
      const at::Tensor weight = whole_tensor(1, {out, 10}).requires_grad_(),
                       bias = whole_tensor(2, {out}).requires_grad_(),
                       input = whole_tensor(3, {16, 3, 10}).requires_grad_(), grad = whole_tensor(4, {16, 3, out});
      fill(context, parameters["weight"], weight);
      fill(context, parameters["bias"], bias);
      const at::Tensor output = at::gelu(at::linear(input, weight, bias), "tanh");
      output.backward(grad);
      Value mine = my_value(context, input.detach(), layer->input_layout());
      mine.tensor.requires_grad_();
      auto step = context.begin_step();
      const Value result = gelu(layer(mine), layer->bias());
      result.tensor.backward(my_value(context, grad, result.layout).tensor);
      step.finish();
      const std::string what = "gelu on " + grid.to_string();
      expect_near(result.tensor.detach(), my_value(context, output.detach(), result.layout).tensor, what);
      expect_near(mine.tensor.grad(), my_value(context, input.grad(), mine.layout).tensor, what);
      expect_gradient(context, parameters["weight"], weight.grad(), what);
      expect_gradient(context, parameters["bias"], bias.grad(), what);
    }
}

TEST(GeluOnCpu, IsRoundedOnceInEveryType) {
  for (const auto& [dtype, tolerance] :
       {std::pair{at::kDouble, 1e-14}, {at::kFloat, 3e-7}, {at::kBFloat16, 4e-3}, {at::kHalf, 6e-4}})
    for (const int64_t n : {1, 31, 96}) {
      const at::Tensor input = (3 * whole_tensor(1, {150, n})).to(dtype), bias = whole_tensor(2, {n}).to(dtype),
                       grad = whole_tensor(3, {150, n}).to(dtype);
      const at::Tensor wide = (input.to(at::kDouble) + bias.to(at::kDouble)).requires_grad_();
      const at::Tensor expected = at::gelu(wide, "tanh");
      expected.backward(grad.to(at::kDouble));
      const auto expect_close = [&, most = tolerance, type = dtype](const at::Tensor& got, const at::Tensor& need) {
        EXPECT_LE((got.to(at::kDouble) - need).abs().max().item<double>(), most * need.abs().max().item<double>())
            << c10::toString(type) << " " << n;
      };
      expect_close(gelu_on_cpu(input, bias), expected.detach());
      const GeluGradient gradient = gelu_gradient_on_cpu(grad, input, bias);
      expect_close(gradient.input, wide.grad());
      EXPECT_EQ(gradient.bias_sums.size(0), 3);  // blocks of 64, 64 and 22 rows
      const at::Tensor sums = wide.grad().sum(0);
      EXPECT_LE((gradient.bias_sums.to(at::kDouble).sum(0) - sums).abs().max().item<double>(),
                dtype == at::kDouble ? 1e-13 : 2e-5);
    }
}

TEST(GeluOnCpu, HasTheSameBitsOnAnyNumberOfThreads) {
  const at::Tensor input = whole_tensor(1, {300, 40}).to(at::kFloat), bias = whole_tensor(2, {40}).to(at::kFloat);
  const int threads = at::get_num_threads();
  at::set_num_threads(3);
  const at::Tensor output = gelu_on_cpu(input, bias);
  const GeluGradient several = gelu_gradient_on_cpu(output, input, bias);
  at::set_num_threads(1);
  EXPECT_TRUE(gelu_on_cpu(input, bias).equal(output));
  const GeluGradient one = gelu_gradient_on_cpu(output, input, bias);
  EXPECT_TRUE(one.input.equal(several.input));
  EXPECT_TRUE(one.bias_sums.equal(several.bias_sums));
  at::set_num_threads(threads);
}

}  // namespace
}  // namespace axonn
