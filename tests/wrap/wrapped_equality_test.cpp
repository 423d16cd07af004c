// Networks of plain torch::nn modules on a grid beside one process.
#include "wrap/wrapped.hpp"

#include <vector>

namespace axonn {
namespace {

using namespace test;

template <typename Net>
void expect_equal(const std::vector<std::string>& units, const std::string& what) {
  constexpr int kSteps = 5;
  std::vector<Tensors> gradients;
  const auto plain = network<Net>();
  torch::optim::AdamW plain_optimizer(plain->parameters(), adamw());
  if constexpr (std::is_same_v<Net, Tied>) {  // plain LibTorch steps a module with two names twice
    std::vector<at::Tensor> once;
    for (const auto& each : plain->named_parameters())
      if (!each.key().starts_with("down") && each.key() != "tied") once.push_back(each.value());
    plain_optimizer.param_groups()[0].params() = once;
  }
  for (int step = 0; step < kSteps; ++step) {
    loss(*plain, step, 0, kRows).backward();
    gradients.push_back(of_plain(*plain, [](const at::Tensor& each) { return each.grad(); }));
    plain_optimizer.step();
    plain_optimizer.zero_grad();
  }
  const Tensors weights = of_plain(*plain, [](const at::Tensor& each) { return each; });
  for (const GridShape& grid : wrapped_grids()) {
    Context context(test_environment(), grid, {.dtype = at::kDouble});
    const auto net = network<Net>(1 + test_environment().rank());  // rank 0's values count
    const WrappedModule parameters = shard(context, *net, {.units = units});
    torch::optim::AdamW optimizer(parameters.local(), adamw());
    const std::string where = what + " on " + grid.to_string();
    for (int step = 0; step < kSteps; ++step) {
      auto open = context.begin_step();
      my_loss(*net, context, step).backward();
      open.finish();
      if (step == 0) expect_local(parameters, gradients[0], /*gradients=*/true, 1e-12, where);
      optimizer.step();
      optimizer.zero_grad();
    }
    expect_local(parameters, weights, /*gradients=*/false, 1e-10, where);
  }
}

TEST(WrappedEquality, Mnist) { expect_equal<Mnist>({}, "mnist"); }
TEST(WrappedEquality, ResNet) { expect_equal<ResNet>({"blocks.*"}, "resnet"); }
TEST(WrappedEquality, Lstm) {
  expect_equal<LstmModel<torch::nn::LSTM>>({}, "lstm");
  expect_equal<LstmModel<Unit<torch::nn::LSTM>>>({}, "lstm as a unit");
}
TEST(WrappedEquality, Transformer) { expect_equal<Translator>({}, "transformer"); }
TEST(WrappedEquality, TiedWeightsAndSharedModule) { expect_equal<Tied>({}, "tied"); }

}  // namespace
}  // namespace axonn
