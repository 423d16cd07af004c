// One rank on a GPU gives the numbers of one rank on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include "axonn/layers/layout.hpp"
#include "axonn/layers/loss.hpp"
#include "axonn/model/decoder/model.hpp"
#include "axonn/model/unet/model.hpp"
#include "axonn/optim/make_optimizer.hpp"
#include "axonn/tasks/images/diffusion.hpp"
#include "axonn/terms/kernel_choice.hpp"
#include "support/rank_test.hpp"

namespace axonn {
namespace {

at::Tensor on_host(const at::Tensor& tensor) { return tensor.detach().to(at::kCPU, at::kDouble).clone(); }

struct Result {
  double loss = 0;
  double norm = 0;
  std::map<std::string, at::Tensor> tensors;  // on the CPU, in fp64
};

// A network of a context with its loss.
struct Network {
  std::unique_ptr<torch::nn::Module> module;
  std::function<at::Tensor()> loss;
  int steps = 1;  // the last one is looked at
};
using MakeNetwork = Network (*)(Context& context, double dropout);

template <int64_t hidden, int64_t heads>
Network gpt(Context& context, double dropout) {
  constexpr int64_t kRows = 4, kSequence = 16, kVocabulary = 101;
  auto model = std::make_unique<Decoder>(context, DecoderConfig{.shape = {.layers = 2,
                                                                          .hidden = hidden,
                                                                          .heads = heads,
                                                                          .sequence = kSequence,
                                                                          .vocabulary = kVocabulary,
                                                                          .tied_head = true},
                                                                .dropout = dropout});
  const at::Tensor tokens = at::arange(kRows * (kSequence + 1), at::kLong)
                                .mul(31)
                                .remainder(kVocabulary)
                                .view({kRows, kSequence + 1})
                                .to(context.options().device);
  auto loss = [&context, tokens, &gpt = *model] {
    return mean(gpt.loss_sum(tokens.narrow(1, 0, kSequence).contiguous(), tokens.narrow(1, 1, kSequence).contiguous()),
                kRows * kSequence, context);
  };
  return {std::move(model), std::move(loss)};
}

// With an attention of heads of 64 features, and the embedding as scales and shifts. Its last
// convolutions begin with zeros: the third step is the first one with gradients of all parameters.
Network unet(Context& context, double dropout) {
  constexpr int64_t kImages = 4, kSize = 16;
  auto model = std::make_unique<Unet>(context, UnetConfig{.shape = {.image = kSize,
                                                                    .base = 32,
                                                                    .multipliers = {1, 2},
                                                                    .blocks = 1,
                                                                    .attention = {8},
                                                                    .heads = 1,
                                                                    .groups = 8,
                                                                    .scale_shift = true},
                                                          .dropout = dropout});
  const ContextOptions& options = context.options();
  const auto images = [&](int64_t factor) {
    return at::arange(kImages * kSize * kSize * 3, at::kLong)
        .mul(factor)
        .remainder(101)
        .sub(50)
        .div(50)
        .view({kImages, kSize, kSize, 3})
        .to(options.device, options.dtype == at::kDouble ? at::kDouble : at::kFloat);
  };
  const at::Tensor clean = images(31), noise = images(37),
                   times = at::arange(kImages, at::kLong).mul(200).to(options.device);
  const auto diffusion = std::make_shared<Diffusion>(DiffusionOptions(), options.device);
  auto loss = [&context, clean, noise, times, diffusion, &unet = *model] {
    const at::Tensor noisy = diffusion->noised(clean, times, noise);
    const at::Tensor output = unet.forward(noisy.to(context.options().dtype), times);
    return mean(diffusion->losses(output, clean, times, noise).sum(), kImages, context);
  };
  return {std::move(model), std::move(loss), /*steps=*/3};
}

// The last step: forward, backward and update.
Result last_step(MakeNetwork make, double dropout, const ContextOptions& options) {
  Context context(test_environment(), {}, options);
  const Network network = make(context, dropout);
  const Parameters parameters = context.materialize(*network.module, 1);
  const auto optimizer =
      make_optimizer(context, parameters, {.kind = OptimizerKind::sgd, .learning_rate = 0.1, .weight_decay = 0});

  Result result;
  for (int number = 1; number <= network.steps; ++number) {
    Step step = context.begin_step();
    context.set_samples({.seed = 1, .first = 0});
    const at::Tensor loss = network.loss();
    loss.backward();
    step.finish();
    result.loss = loss.item<double>();
    if (number == network.steps)
      for (const auto& parameter : parameters.list())
        result.tensors["gradient " + parameter.name()] = on_host(parameter.gradient());
    result.norm = optimizer->step({.max_norm = 1.0}).gradient_norm;
  }
  for (const auto& parameter : parameters.list())
    result.tensors["weight " + parameter.name()] = on_host(parameter.shard());
  return result;
}

// max|a - b| / max|b|
double distance(const at::Tensor& tensor, const at::Tensor& expected) {
  return (tensor - expected).abs().max().item<double>() / expected.abs().max().item<double>();
}

struct Case {
  const char* network;
  MakeNetwork make;
  at::ScalarType dtype;
  double dropout;
  bool own_kernels;
  double loss_tolerance = 0;  // in bf16 the tolerances follow from the CPU
  double tensor_tolerance = 0;

  ContextOptions on(c10::Device device) const {
    return {.dtype = dtype, .device = device, .kernels = own_kernels ? KernelChoice::all() : KernelChoice()};
  }
};

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const Case& one = info.param;
  return std::string(one.network) + "_" + c10::toString(one.dtype) + (one.dropout > 0 ? "_dropout" : "") +
         (one.own_kernels ? "_own_kernels" : "");
}

class OneGpu : public testing::TestWithParam<Case> {};
class OneGpuIn16Bits : public testing::TestWithParam<Case> {};

TEST_P(OneGpu, ForwardBackwardAndUpdateEqualTheCpu) {
  const Case& one = GetParam();
  const Result gpu = last_step(one.make, one.dropout, one.on(c10::kCUDA)),
               cpu = last_step(one.make, one.dropout, one.on(c10::kCPU));
  EXPECT_NEAR(gpu.loss, cpu.loss, one.loss_tolerance * cpu.loss);
  EXPECT_NEAR(gpu.norm, cpu.norm, one.tensor_tolerance * cpu.norm);
  for (const auto& [name, expected] : cpu.tensors)
    EXPECT_LE(distance(gpu.tensors.at(name), expected), one.tensor_tolerance) << name;
}

// The CPU rounds as often as the GPU, in other places. A tensor that it happens to hit well may be
// as far off as its tensors are on average.
TEST_P(OneGpuIn16Bits, IsNotFurtherFrom64BitsThanTwiceTheCpu) {
  const Case& one = GetParam();
  const Result gpu = last_step(one.make, one.dropout, one.on(c10::kCUDA)),
               cpu = last_step(one.make, one.dropout, one.on(c10::kCPU)),
               exact = last_step(one.make, one.dropout, {.dtype = at::kDouble});
  double sum = 0;
  for (const auto& [name, expected] : exact.tensors) sum += distance(cpu.tensors.at(name), expected);
  const double average = sum / static_cast<double>(exact.tensors.size());
  EXPECT_NEAR(gpu.loss, exact.loss, 2 * std::max(std::abs(cpu.loss - exact.loss), average * exact.loss));
  EXPECT_NEAR(gpu.norm, exact.norm, 2 * std::max(std::abs(cpu.norm - exact.norm), average * exact.norm));
  for (const auto& [name, expected] : exact.tensors)
    EXPECT_LE(distance(gpu.tensors.at(name), expected), 2 * std::max(distance(cpu.tensors.at(name), expected), average))
        << name;
}

constexpr MakeNetwork kGpt12 = gpt<48, 4>, kGpt64 = gpt<128, 2>;  // by the features of a head

INSTANTIATE_TEST_SUITE_P(, OneGpu,
                         testing::Values(Case{"gpt12", kGpt12, at::kDouble, 0, false, 1e-12, 1e-12},
                                         Case{"gpt12", kGpt12, at::kDouble, 0.2, false, 1e-12, 1e-12},
                                         Case{"gpt12", kGpt12, at::kFloat, 0, false, 1e-5, 1e-3},
                                         Case{"gpt64", kGpt64, at::kDouble, 0, false, 1e-12, 1e-12},
                                         Case{"gpt64", kGpt64, at::kFloat, 0, false, 1e-5, 1e-3},
                                         Case{"gpt64", kGpt64, at::kFloat, 0, true, 1e-5, 1e-3},
                                         Case{"unet", unet, at::kDouble, 0.1, false, 1e-12, 1e-11},
                                         Case{"unet", unet, at::kFloat, 0, false, 1e-5, 1e-3},
                                         Case{"unet", unet, at::kFloat, 0.1, true, 1e-5, 1e-3}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(, OneGpuIn16Bits,
                         testing::Values(Case{"gpt64", kGpt64, at::kBFloat16, 0, false},
                                         Case{"gpt64", kGpt64, at::kBFloat16, 0, true},
                                         Case{"gpt64", kGpt64, at::kBFloat16, 0.1, true},
                                         Case{"unet", unet, at::kBFloat16, 0, false},
                                         Case{"unet", unet, at::kBFloat16, 0.1, true}),
                         name_of);

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
