// Convolutions take the kernel that was chosen for their shape, and all ranks choose the same one.
#include "axonn/kernels/choice/convolution_choice.hpp"

#include <ATen/ops/zeros.h>

#include "axonn/core/error.hpp"
#include "axonn/layers/conv2d.hpp"
#include "axonn/kernels/cpu/convolution_kernels.hpp"
#include "layers/layer_fixture.hpp"

namespace axonn {
namespace {

using at::Tensor;

constexpr ConvolutionShape kShape{.height = 8, .width = 6, .in = 12, .out = 10};
constexpr auto kWinograd = ConvolutionKernel::winograd, kOneDnn = ConvolutionKernel::winograd_onednn,
               kDirect = ConvolutionKernel::direct;

TEST(ConvolutionChoice, IsByShapeAndUseAndHasATextForm) {
  ConvolutionChoice choice;
  EXPECT_EQ(choice.to_string(), "direct");
  EXPECT_EQ(ConvolutionChoice("direct"), choice);
  choice.set(ConvolutionUse::grad_input, kShape, kWinograd);
  choice.set(ConvolutionUse::grad_weight, {32, 32, 64, 128}, kOneDnn);
  EXPECT_EQ(choice.to_string(), "8x6:12>10=direct,winograd,direct;32x32:64>128=direct,direct,winograd-onednn");
  EXPECT_EQ(ConvolutionChoice(choice.to_string()), choice);
  EXPECT_EQ(choice(ConvolutionUse::grad_input, kShape), kWinograd);
  EXPECT_EQ(choice(ConvolutionUse::output, kShape), kDirect);
  EXPECT_EQ(choice(ConvolutionUse::grad_input, {6, 8, 12, 10}), kDirect);
  for (const char* wrong : {"", "winograd", "8x6:12>10=direct", "8x6:12>10=direct,direct,fast", "8x6:12>0=a,b,c",
                            "8x6:12>10=direct,direct,direct;", "8x6:12>10=direct,direct,direct,direct"})
    EXPECT_THROW(ConvolutionChoice{std::string_view(wrong)}, UserError) << wrong;
}

TEST(ConvolutionChoice, IsThatOfRank0OnEveryRankAndKeepsWhatIsKnown) {
  Communicator& world = test_environment().world();
  ConvolutionChoice known;
  known.set(ConvolutionUse::output, kShape, kOneDnn);
  const std::array shapes = {kShape, ConvolutionShape{4, 4, 16, 16}};
  const ConvolutionChoice chosen = choose_convolutions(world, shapes, 2, at::kFloat, c10::kCPU, known);
  EXPECT_TRUE(chosen.knows(shapes[1]));
  EXPECT_EQ(chosen(ConvolutionUse::output, kShape), kOneDnn);
  EXPECT_EQ(chosen(ConvolutionUse::grad_weight, kShape), kDirect);
  const Tensor bytes = at::zeros({256}, at::kByte);
  std::ranges::copy(chosen.to_string(), bytes.mutable_data_ptr<uint8_t>());
  const Tensor before = bytes.clone();
  world.broadcast(bytes, 0).wait();
  EXPECT_TRUE(bytes.equal(before)) << chosen.to_string();
  EXPECT_EQ(choose_convolutions(world, shapes, 2, at::kBFloat16, c10::kCPU), ConvolutionChoice());
  const ConvolutionChoice wide = choose_convolutions(world, shapes, 2, at::kDouble, c10::kCPU);
  for (const auto use : {ConvolutionUse::output, ConvolutionUse::grad_input, ConvolutionUse::grad_weight})
    EXPECT_NE(wide(use, shapes[1]), kOneDnn);
}

struct Trained {
  Tensor output, grad_input, gradients;
};

Trained train(const GridShape& shape, at::ScalarType dtype, const ConvolutionChoice& choice) {
  Context context(test_environment(), shape, {.dtype = dtype, .convolutions = choice});
  Conv2d layer(context, Conv2dOptions{.in = 24, .out = 24, .padding = {1, 1}});
  const Parameters parameters = context.materialize(*layer, 5);
  auto step = context.begin_step();
  Value input = test::my_value(context, test::whole_tensor(6, {24, 8, 6, 24}).to(dtype), layer->input_layout());
  input.tensor.requires_grad_();
  const Tensor output = layer(input).tensor;
  output.square().sum().backward();
  step.finish();
  return {output.detach().to(at::kDouble), input.tensor.grad().to(at::kDouble),
          parameters.arena().gradients().to(at::kDouble)};
}

// One use at a time: only its results change in the last bits, and they stay near.
TEST(ConvolutionChoice, LayersConvolveWithIt) {
  for (const GridShape& grid : factorisations(test_environment().ranks())) {
    if (24 % grid.x != 0 || 24 % grid.y != 0) continue;
    const ConvolutionShape mine{8, 6, 24 / grid.y, 24 / grid.x};
    for (const auto& [dtype, kernel] :
         {std::pair{at::kFloat, kWinograd}, {at::kFloat, kOneDnn}, {at::kDouble, kWinograd}}) {
      const Trained direct = train(grid, dtype, {});
      for (const auto use : {ConvolutionUse::output, ConvolutionUse::grad_input, ConvolutionUse::grad_weight}) {
        ConvolutionChoice choice;
        choice.set(use, mine, kernel);
        const Trained other = train(grid, dtype, choice);
        const auto expect_near = [&, type = dtype](const Tensor& got, const Tensor& expected, bool changed) {
          EXPECT_LE((got - expected).abs().max().item<double>(),
                    (type == at::kFloat ? 1e-5 : 1e-13) * expected.abs().max().item<double>());
          EXPECT_FALSE(changed && got.equal(expected)) << choice.to_string() << " was not used";
        };
        expect_near(other.output, direct.output, use == ConvolutionUse::output);
        expect_near(other.grad_input, direct.grad_input, use == ConvolutionUse::grad_input);
        expect_near(other.gradients, direct.gradients, use == ConvolutionUse::grad_weight);
        EXPECT_EQ(other.output.equal(direct.output), use != ConvolutionUse::output);
      }
    }
  }
}

}  // namespace
}  // namespace axonn
