// One rank on a GPU gives the numbers of one rank on the CPU.
#include <gtest/gtest.h>

#include <map>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include "axonn/layers/layout.hpp"
#include "axonn/layers/loss.hpp"
#include "axonn/model/gpt/model.hpp"
#include "axonn/optim/make_optimizer.hpp"
#include "support/rank_test.hpp"

namespace axonn {
namespace {

at::Tensor on_host(const at::Tensor& tensor) { return tensor.detach().to(at::kCPU, at::kDouble).clone(); }

struct Result {
  double loss = 0;
  double norm = 0;
  std::map<std::string, at::Tensor> tensors;  // on the CPU, in fp64
};

// One forward, backward and update.
Result one_step(c10::Device device, at::ScalarType dtype, double dropout) {
  Context context(test_environment(), {}, {.dtype = dtype, .device = device});
  Gpt model(context,
            {.shape = {.layers = 2, .hidden = 48, .heads = 4, .sequence = 16, .vocabulary = 101, .tied_head = true},
             .dropout = dropout});
  const Parameters parameters = context.materialize(model, 1);
  const auto optimizer =
      make_optimizer(context, parameters, {.kind = OptimizerKind::sgd, .learning_rate = 0.1, .weight_decay = 0});
  const at::Tensor tokens =
      at::arange(4 * 17, at::kLong).mul(31).remainder(101).view({4, 17}).to(context.options().device);

  Step step = context.begin_step();
  context.set_samples({.seed = 1, .first = 0});
  const at::Tensor loss =
      mean(model.loss_sum(tokens.narrow(1, 0, 16).contiguous(), tokens.narrow(1, 1, 16).contiguous()), 4 * 16, context);
  loss.backward();
  step.finish();
  Result result{.loss = loss.item<double>()};
  for (const auto& parameter : parameters.list())
    result.tensors["gradient " + parameter.name()] = on_host(parameter.gradient());
  result.norm = optimizer->step({.max_norm = 1.0}).gradient_norm;
  for (const auto& parameter : parameters.list())
    result.tensors["weight " + parameter.name()] = on_host(parameter.shard());
  return result;
}

struct Case {
  at::ScalarType dtype;
  double dropout;
  double loss_tolerance;
  double tensor_tolerance;
};

class OneGpu : public testing::TestWithParam<Case> {};

TEST_P(OneGpu, ForwardBackwardAndUpdateEqualTheCpu) {
  const auto [dtype, dropout, loss_tolerance, tensor_tolerance] = GetParam();
  const Result gpu = one_step(c10::kCUDA, dtype, dropout), cpu = one_step(c10::kCPU, dtype, dropout);
  EXPECT_NEAR(gpu.loss, cpu.loss, loss_tolerance * cpu.loss);
  EXPECT_NEAR(gpu.norm, cpu.norm, tensor_tolerance * cpu.norm);
  for (const auto& [name, expected] : cpu.tensors) {
    const double difference = (gpu.tensors.at(name) - expected).abs().max().item<double>();
    EXPECT_LE(difference, tensor_tolerance * expected.abs().max().item<double>()) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(, OneGpu,
                         testing::Values(Case{at::kDouble, 0, 1e-12, 1e-12}, Case{at::kDouble, 0.2, 1e-12, 1e-12},
                                         Case{at::kFloat, 0, 1e-5, 1e-3}));

TEST(AdamWOnOneGpu, TakesTheStepsOfTheCpu) {
  const auto steps = [](c10::Device device) {
    Context context(test_environment(), {}, {.dtype = at::kDouble, .device = device});
    Linear layer(context, {.in = 24, .out = 40});
    const Parameters parameters = context.materialize(*layer, 1);
    const auto optimizer = make_optimizer(context, parameters, {.learning_rate = 1e-2});
    const at::Tensor input =
        at::arange(8 * 24, at::kDouble).remainder(11).sub(5).view({8, 24}).to(context.options().device);
    for (int i = 0; i < 3; ++i) {
      Step step = context.begin_step();
      mean(layer(input).square().sum(), 8, context).backward();
      step.finish();
      optimizer->step({.max_norm = 0.5});
    }
    return parameters.arena().weights().to(at::kCPU);
  };
  EXPECT_LE((steps(c10::kCUDA) - steps(c10::kCPU)).abs().max().item<double>(), 1e-10);
}

}  // namespace
}  // namespace axonn
