// Linear layers in one operation, with cuBLASLt's products on the host, against LibTorch in fp64.
#include "layers/fused/linear_chain.hpp"

#include <string>

#include <ATen/Context.h>

#include "axonn/layers/linear.hpp"
#include "layers/fused/product.hpp"
#include "layers/layer_fixture.hpp"

namespace axonn {
namespace {

using namespace test;

constexpr int64_t kMicroBatches = 2;

struct Sizes {
  std::vector<int64_t> features;  // numbers of the input, and of the output of each layer
  bool adds = false;              // to a stream
};

// The largest difference, relative to the largest number. A rank may hold nothing of a bias.
double difference(const at::Tensor& got, const at::Tensor& need) {
  if (need.numel() == 0) return 0;
  return ((got.to(at::kDouble) - need).abs().max() / need.abs().max()).item<double>();
}

// Layers in fp64 by LibTorch, on whole tensors.
struct Serial {
  std::vector<at::Tensor> weights, biases;

  at::Tensor forward(at::Tensor rows, const at::Tensor& stream) const {
    for (size_t i = 0; i < weights.size(); ++i) {
      rows = at::linear(rows, weights[i], biases[i]);
      if (i + 1 < weights.size()) rows = at::gelu(rows, "tanh");
    }
    return stream.defined() ? rows + stream : rows;
  }
};

void expect_equals_serial(const GridShape& grid, const Sizes& sizes, at::ScalarType dtype, double tolerance) {
  Context context(test_environment(), grid, {.dtype = dtype});
  torch::nn::Module network;
  std::vector<Linear> layers;
  for (size_t i = 0; i + 1 < sizes.features.size(); ++i) {
    layers.emplace_back(context, LinearOptions{.in = sizes.features[i], .out = sizes.features[i + 1]});
    network.register_module(std::to_string(i), layers.back().ptr());
  }
  const Parameters parameters = context.materialize(network, 1);
  // Of the context's type, so that both sides begin with the same numbers.
  const auto drawn = [&](int64_t seed, at::IntArrayRef shape) {
    return whole_tensor(seed, shape).to(dtype).to(at::kDouble).requires_grad_();
  };
  Serial serial;
  std::vector<ChainedLinear> chain;
  for (size_t i = 0; i < layers.size(); ++i) {
    serial.weights.push_back(drawn(static_cast<int64_t>(i), {sizes.features[i + 1], sizes.features[i]}));
    serial.biases.push_back(drawn(10 + static_cast<int64_t>(i), {sizes.features[i + 1]}));
    fill(context, layers[i]->weight(), serial.weights.back());
    fill(context, layers[i]->bias(), serial.biases.back());
    chain.push_back({layers[i]->weight(), layers[i]->bias()});
  }
  const std::string what = std::to_string(layers.size()) + " layers in " + c10::toString(dtype) +
                           (sizes.adds ? " with a stream" : "") + " on " + grid.to_string();
  auto step = context.begin_step({.micro_batches = kMicroBatches});
  for (int64_t micro_batch = 0; micro_batch < kMicroBatches; ++micro_batch) {
    const int64_t seed = 100 * (1 + micro_batch), out = sizes.features.back();
    const at::Tensor input = drawn(seed, {8, 3, sizes.features[0]}), grad = drawn(seed + 1, {8, 3, out}).detach(),
                     stream = sizes.adds ? drawn(seed + 2, {8, 3, out}) : at::Tensor();
    const at::Tensor need = serial.forward(input, stream);
    need.backward(grad);
    const auto mine = [&](const at::Tensor& whole) { return my_rows(context, whole.detach()); };
    const at::Tensor my_input = mine(input).to(dtype).requires_grad_(),
                     my_stream = sizes.adds ? mine(stream).to(dtype).requires_grad_() : at::Tensor();
    auto operation = linear_chain(chain, sizes.adds ? my_stream.detach() : my_stream);
    const at::Tensor got =
        layers.size() == 1 ? record(std::move(operation), my_input, {&chain[0].weight, &chain[0].bias}, {my_stream})
                           : record(std::move(operation), my_input,
                                    {&chain[0].weight, &chain[0].bias, &chain[1].weight, &chain[1].bias}, {my_stream});
    got.backward(mine(grad).to(dtype));
    EXPECT_LE(difference(got.detach(), mine(need)), tolerance) << what;
    EXPECT_LE(difference(my_input.grad(), mine(input.grad())), tolerance) << what << ": input";
    if (!sizes.adds) continue;
    EXPECT_LE(difference(my_stream.grad(), mine(stream.grad())), tolerance) << what << ": stream";
  }
  step.finish();
  for (size_t i = 0; i < layers.size(); ++i)
    for (const auto& [parameter, whole] :
         {std::pair{chain[i].weight, serial.weights[i]}, {chain[i].bias, serial.biases[i]}})
      EXPECT_LE(difference(parameter.gradient(), my_range(context, parameter.slot(), whole.grad())), tolerance)
          << what << ": " << parameter.name();
}

// The dry GPU gives cuBLASLt's handle, stream and workspace.
class LinearChain : public testing::Test {
 protected:
  static void SetUpTestSuite() { at::globalContext().lazyInitDevice(at::kCUDA); }
};

TEST_F(LinearChain, EqualsSerial) {
  for (const GridShape& grid : every_grid())
    for (const Sizes& sizes : {Sizes{{24, 40}}, {{40, 24}, true}, {{16, 48, 16}, true}, {{24, 8, 16}}})
      for (const auto& [dtype, tolerance] : {std::pair{at::kFloat, 2e-6}, {at::kBFloat16, 1.2e-2}, {at::kHalf, 2e-3}})
        if (grid.x == 1 && grid.y == 1) expect_equals_serial(grid, sizes, dtype, tolerance);
}

TEST_F(LinearChain, AProductThatCublasltDoesNotHaveIsAnError) {
  std::vector<float> numbers(64);
  const ProductMatrix small{.data = numbers.data(), .rows = 4, .columns = 4, .leading = 4};
  const Product product{.out = small, .a = small, .b = small, .bias = numbers.data(), .gelu_input = numbers.data()};
  try {
    multiply(product, -1);
    ADD_FAILURE() << "no error";
  } catch (const BackendError& error) {
    EXPECT_NE(std::string(error.what()).find("unset AXONN_PRODUCT_EPILOGUES"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace axonn
