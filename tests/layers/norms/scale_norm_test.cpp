// The layer of examples/own_layer gives its formula's numbers on any grid, through public headers
// only.
#include "scale_norm.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "layers/layer_fixture.hpp"

namespace axonn {
namespace {

using namespace test;

TEST(ScaleNormOnEveryGrid, EqualsItsFormula) {
  for (const GridShape& grid : every_grid())
    for (const int64_t features : {24, 17}) {
      Context context = context_on(grid);
      ScaleNorm layer(context, {.features = features, .epsilon = 1e-3});
      const Parameters parameters = context.materialize(*layer, 1);
      const at::Tensor weight = whole_tensor(1, {1}).requires_grad_();
      fill(context, parameters["weight"], weight);
      const at::Tensor input = whole_tensor(2, {16, 2, features}).requires_grad_(),
                       grad = whole_tensor(3, {16, 2, features});
      const at::Tensor output = input / (input.square().mean(-1, /*keepdim=*/true) + 1e-3).sqrt() * weight;
      output.backward(grad);

      Value mine = my_value(context, input.detach(), Layout::over(Axis::x));
      mine.tensor.requires_grad_();
      auto step = context.begin_step();
      const Value result = layer(mine);
      result.tensor.backward(my_value(context, grad, result.layout).tensor);
      step.finish();
      const std::string what = "scale norm on " + grid.to_string();
      expect_near(result.tensor.detach(), my_value(context, output.detach(), result.layout).tensor, what);
      expect_near(mine.tensor.grad(), my_value(context, input.grad(), result.layout).tensor, what);
      expect_gradient(context, parameters["weight"], weight.grad(), what);
    }
}

}  // namespace
}  // namespace axonn
