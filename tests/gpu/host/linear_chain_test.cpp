// Linear layers in one operation, with cuBLASLt's products on the host, against LibTorch in fp64.
#include "layers/ops/linear_chain.hpp"

#include <string>

#include <ATen/Context.h>

#include "axonn/layers/linear.hpp"
#include "gpu/host/host_cublaslt.hpp"
#include "kernels/gpu/product.hpp"
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

// Fallen back to plain products and a launch for each of the rest, which round once more. Of sizes
// that no other test has: their algorithms are not known yet.
TEST_F(LinearChain, WithoutAnEpilogueEqualsSerial) {
  int64_t width = 72;
  for (const auto epilogue :
       {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU, CUBLASLT_EPILOGUE_BGRADB}) {
    host_cublaslt::missing = epilogue;
    width += 8;
    expect_equals_serial({.z = test_environment().ranks()}, {{64, width, 56}, true}, at::kBFloat16, 2e-2);
    expect_equals_serial({.z = test_environment().ranks()}, {{width, 64}, true}, at::kFloat, 2e-6);
  }
  host_cublaslt::missing.reset();
}

// The first algorithm is not able to compute the product. The second and third are measured when a
// shape is first seen, also where the product adds to what is there.
TEST_F(LinearChain, MeasuresTheAlgorithmsOfAShapeOnce) {
  constexpr int64_t kSize = 12;
  std::vector<float> a(kSize * kSize, 0.5F), b(kSize * kSize, 2), out(kSize * kSize, 7);
  const auto square = [](std::vector<float>& numbers) {
    return ProductMatrix{.data = numbers.data(), .rows = kSize, .columns = kSize, .leading = kSize};
  };
  const Product product{.out = square(out), .a = square(a), .b = square(b), .added = out.data()};
  host_cublaslt::offered = 3;
  const int asked = host_cublaslt::asked, products = host_cublaslt::products;
  EXPECT_TRUE(multiply(product, -1));
  EXPECT_EQ(host_cublaslt::asked, asked + 1);
  EXPECT_GE(host_cublaslt::products, products + 2 * 4 + 1) << "one and three turns of two algorithms, and the product";
  EXPECT_EQ(out, std::vector<float>(out.size(), 7 + kSize));
  const int before = host_cublaslt::products;
  EXPECT_TRUE(multiply(product, -1));
  EXPECT_EQ(host_cublaslt::asked, asked + 1);
  EXPECT_EQ(host_cublaslt::products, before + 1);
  EXPECT_EQ(out, std::vector<float>(out.size(), 7 + 2 * kSize));
  host_cublaslt::offered = 1;
}

TEST_F(LinearChain, AProductThatCublasltDoesNotHaveIsNotDone) {
  std::vector<float> numbers(64);
  const ProductMatrix small{.data = numbers.data(), .rows = 4, .columns = 4, .leading = 4};
  const Product product{.out = small, .a = small, .b = small, .bias = numbers.data(), .gelu_input = numbers.data()};
  EXPECT_FALSE(multiply(product, -1));
}

}  // namespace
}  // namespace axonn
