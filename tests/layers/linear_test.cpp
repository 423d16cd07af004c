#include "axonn/layers/linear.hpp"

#include "layers/layer_fixture.hpp"

namespace axonn {
namespace {

using namespace test;

struct Shape {
  int64_t in, out;
  std::vector<int64_t> segments = {};
  bool pad = false;
};

// Output and all gradients of one layer, against at::linear on the whole tensors.
void expect_equals_serial(const GridShape& grid, const Shape& shape, bool transposed, bool bias) {
  Context context = context_on(grid);
  Linear layer(context, {.in = shape.in,
                         .out = shape.out,
                         .bias = bias,
                         .transposed = transposed,
                         .segments = shape.segments,
                         .pad_output = shape.pad});
  const Parameters parameters = context.materialize(*layer, 1);
  const at::Tensor weight = whole_tensor(1, {shape.out, shape.in}).requires_grad_(),
                   offset = whole_tensor(2, {shape.out}).requires_grad_();
  fill(context, parameters["weight"], weight);
  if (bias) fill(context, parameters["bias"], offset);
  const at::Tensor input = whole_tensor(3, {13, 2, shape.in}).requires_grad_(),
                   grad = whole_tensor(4, {13, 2, shape.out});
  const at::Tensor output = bias ? at::linear(input, weight, offset) : at::linear(input, weight);
  output.backward(grad);

  Value mine = my_value(context, input.detach(), layer->input_layout());
  mine.tensor.requires_grad_();
  auto step = context.begin_step();
  const Value result = layer(mine);
  result.tensor.backward(my_value(context, grad, layer->output_layout()).tensor);
  step.finish();
  const std::string what = "linear " + std::to_string(shape.in) + " -> " + std::to_string(shape.out) +
                           (transposed ? " transposed" : "") + " on " + grid.to_string();
  EXPECT_EQ(result.layout, layer->output_layout());
  expect_near(result.tensor.detach(), my_value(context, output.detach(), layer->output_layout()).tensor,
              what + ": output");
  expect_near(mine.tensor.grad(), my_value(context, input.grad(), layer->input_layout()).tensor,
              what + ": input gradient");
  expect_gradient(context, parameters["weight"], weight.grad(), what + ": weight gradient");
  if (bias) expect_gradient(context, parameters["bias"], offset.grad(), what + ": bias gradient");
}

TEST(LinearOnEveryGrid, EqualsSerialForwardAndBackward) {
  const std::vector<Shape> shapes = {{24, 48}, {13, 7}, {10, 21, {7, 7, 7}}, {9, 11, {}, true}};
  for (const GridShape& grid : every_grid())
    for (const Shape& shape : shapes)
      for (const bool transposed : {false, true})
        for (const bool bias : {false, true}) expect_equals_serial(grid, shape, transposed, bias);
}

TEST(LinearOnEveryGrid, TakesAndGivesReplicatedTensors) {
  for (const GridShape& grid : every_grid()) {
    Context context = context_on(grid);
    Linear up(context, {.in = 6, .out = 10, .input = Layout::replicated()});
    Linear down(context, {.in = 10, .out = 4, .transposed = true, .output = Layout::replicated()});
    torch::nn::Module net;
    net.register_module("up", up.ptr());
    net.register_module("down", down.ptr());
    const Parameters parameters = context.materialize(net, 1);
    const at::Tensor w1 = whole_tensor(1, {10, 6}).requires_grad_(), w2 = whole_tensor(2, {4, 10}).requires_grad_();
    fill(context, parameters["up.weight"], w1);
    fill(context, parameters["down.weight"], w2);
    const at::Tensor input = whole_tensor(3, {16, 6}).requires_grad_(), grad = whole_tensor(4, {16, 4});
    const at::Tensor output = at::linear(at::gelu(at::linear(input, w1)), w2);
    output.backward(grad);

    const at::Tensor mine = my_rows(context, input.detach()).requires_grad_();
    auto step = context.begin_step();
    const at::Tensor result = down(at::gelu(up(mine)));
    result.backward(my_rows(context, grad));
    step.finish();
    expect_near(result.detach(), my_rows(context, output.detach()), "output on " + grid.to_string());
    expect_near(mine.grad(), my_rows(context, input.grad()), "input gradient on " + grid.to_string());
    expect_gradient(context, parameters["up.weight"], w1.grad(), "up");
    expect_gradient(context, parameters["down.weight"], w2.grad(), "down");
  }
}

// Two uses and two micro-batches: contributions are counted, summed, and reduced once per
// micro-batch.
TEST(LinearOnEveryGrid, SumsTheGradientsOfAllUses) {
  for (const GridShape& grid : every_grid()) {
    Context context = context_on(grid);
    Linear layer(context, {.in = 8, .out = 6, .bias = false});
    const Parameters parameters = context.materialize(*layer, 1);
    Linear again(context, {.in = 8, .out = 6, .bias = false}, layer->weight());
    const at::Tensor weight = whole_tensor(1, {6, 8}).requires_grad_();
    fill(context, parameters["weight"], weight);
    auto step = context.begin_step({.micro_batches = 2});
    for (const int64_t micro_batch : {0, 1}) {
      const at::Tensor a = whole_tensor(10 + micro_batch, {16, 8}), b = whole_tensor(20 + micro_batch, {16, 8}),
                       grad = whole_tensor(30 + micro_batch, {16, 6});
      (at::linear(a, weight) + 2 * at::linear(b, weight)).backward(grad);
      const Value first = layer(my_value(context, a, layer->input_layout())),
                  second = again(my_value(context, b, layer->input_layout()));
      (first.tensor + 2 * second.tensor).backward(my_value(context, grad, layer->output_layout()).tensor);
    }
    step.finish();
    expect_gradient(context, parameters["weight"], weight.grad(), "shared weight");
  }
}

}  // namespace
}  // namespace axonn
