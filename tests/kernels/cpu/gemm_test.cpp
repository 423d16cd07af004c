// Both of LibTorch's products compute what the layers need, and all ranks use the same one.
#include <ATen/ops/zeros.h>

#include "axonn/core/error.hpp"
#include "axonn/layers/linear.hpp"
#include "layers/layer_fixture.hpp"

namespace axonn {
namespace {

using at::Tensor;

constexpr std::array kKernels = {GemmKernel::mm, GemmKernel::onednn};

void expect_near(const Tensor& value, const Tensor& expected, at::ScalarType dtype) {
  const double tolerance = dtype == at::kFloat ? 1e-5 : 2e-2;
  EXPECT_LE((value.to(at::kDouble) - expected).abs().max().item<double>(),
            tolerance * expected.abs().max().item<double>())
      << c10::toString(dtype);
}

TEST(Gemm, MultipliesOperandsOfAnyStride) {
  for (const auto dtype : {at::kFloat, at::kBFloat16})
    for (const GemmKernel kernel : kKernels) {
      if (!gemm_available(kernel, dtype, c10::kCPU)) continue;
      const Tensor x = test::whole_tensor(1, {7, 5}).to(dtype), w = test::whole_tensor(2, {6, 5}).to(dtype);
      const Tensor g = test::whole_tensor(3, {7, 6}).to(dtype), bias = test::whole_tensor(4, {6}).to(dtype);
      const auto wide = [](const Tensor& tensor) { return tensor.to(at::kDouble); };
      expect_near(gemm(kernel, x, w), wide(x).mm(wide(w).t()), dtype);
      expect_near(gemm(kernel, x, w, bias), wide(x).mm(wide(w).t()) + wide(bias), dtype);
      expect_near(gemm(kernel, g, w.t()), wide(g).mm(wide(w)), dtype);
      for (const auto sums : {dtype, at::kFloat}) {
        const Tensor block = at::zeros({6, 5}, sums);
        gemm_into(kernel, block, g.t(), x.t(), /*add=*/false);
        gemm_into(kernel, block, g.t(), x.t(), /*add=*/true);
        expect_near(block, 2 * wide(g).t().mm(wide(x)), dtype);
      }
    }
}

TEST(Gemm, OneDnnIsForTheCpuAndItsTypes) {
  EXPECT_FALSE(gemm_available(GemmKernel::onednn, at::kDouble, c10::kCPU));
  EXPECT_FALSE(gemm_available(GemmKernel::onednn, at::kFloat, c10::kCUDA));
  EXPECT_TRUE(gemm_available(GemmKernel::mm, at::kDouble, c10::kCUDA));
  EXPECT_TRUE(gemm_available(GemmKernel::mm, at::kBFloat16, c10::kCPU));
  EXPECT_TRUE(gemm_available(GemmKernel::onednn, at::kFloat, c10::kCPU));
  // Its answer for bf16 is true.
  const Tensor a = at::ones({8, 8}, at::kBFloat16);
  if (gemm_available(GemmKernel::onednn, at::kBFloat16, c10::kCPU)) {
    EXPECT_NO_THROW(gemm(GemmKernel::onednn, a, a));
  } else {
    EXPECT_ANY_THROW(gemm(GemmKernel::onednn, a, a));
  }
}

TEST(GemmChoice, IsByUseAndSizeAndHasATextForm) {
  GemmChoice choice;
  EXPECT_EQ(choice.to_string(), "mm");
  choice.set(GemmUse::grad_input, 1024, 768, 768, GemmKernel::onednn);
  EXPECT_EQ(choice(GemmUse::grad_input, 4096, 4096, 4096), GemmKernel::onednn);
  EXPECT_EQ(choice(GemmUse::grad_input, 4, 4, 4), GemmKernel::mm);
  EXPECT_EQ(choice(GemmUse::output, 4096, 4096, 4096), GemmKernel::mm);
  EXPECT_EQ(GemmChoice(choice.to_string()), choice);
  EXPECT_EQ(GemmChoice("onednn"), GemmChoice(GemmKernel::onednn));
  EXPECT_EQ(GemmChoice(GemmKernel::onednn)(GemmUse::output, 0, 4, 4), GemmKernel::mm);
  for (const char* wrong : {"", "mkl", "mm,mm", "mm,"})
    EXPECT_THROW(GemmChoice{std::string_view(wrong)}, UserError) << wrong;
}

TEST(GemmChoice, IsThatOfRank0OnEveryRank) {
  Communicator& world = test_environment().world();
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const std::string mine = choose_gemm(world, dtype, c10::kCPU).to_string();
    Tensor bytes = at::zeros({128}, at::kByte);
    std::ranges::copy(mine, bytes.mutable_data_ptr<uint8_t>());
    const Tensor before = bytes.clone();
    world.broadcast(bytes, 0).wait();
    EXPECT_TRUE(bytes.equal(before)) << mine;
  }
  EXPECT_EQ(choose_gemm(world, at::kDouble, c10::kCPU), GemmChoice());
}

// A layer on every grid with one kernel for all its products, compared with the other kernel.
TEST(GemmChoice, LayersMultiplyWithIt) {
  for (const GridShape& shape : factorisations(test_environment().ranks())) {
    std::array<Tensor, 2> gradients, outputs;
    for (const GemmKernel kernel : kKernels) {
      Context context(test_environment(), shape, {.gemm = GemmChoice(kernel)});
      Linear layer(context,
                   LinearOptions{.in = 12, .out = 10, .input = Layout::replicated(), .output = Layout::replicated()});
      const Parameters parameters = context.materialize(*layer, 5);
      auto step = context.begin_step();
      const Tensor output = layer->forward(test::my_rows(context, test::whole_tensor(6, {8, 12}).to(at::kFloat)));
      output.square().sum().backward();
      step.finish();
      const auto index = static_cast<size_t>(kernel);
      outputs[index] = output.detach().to(at::kDouble);
      gradients[index] = parameters.arena().gradients().to(at::kDouble);
    }
    expect_near(outputs[1], outputs[0], at::kFloat);
    expect_near(gradients[1], gradients[0], at::kFloat);
  }
}

}  // namespace
}  // namespace axonn
