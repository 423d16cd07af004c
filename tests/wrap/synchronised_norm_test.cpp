// axonn's BatchNorm over the rows of all ranks beside LibTorch's in one process.
#include "wrap/wrapped.hpp"

#include <vector>

#include "axonn/wrap/nn.hpp"
#include "axonn/wrap/parallelize.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

void expect_same_buffers(const torch::nn::Module& net, const torch::nn::Module& plain, const std::string& where) {
  const auto need = plain.named_buffers();
  for (const auto& each : net.named_buffers())
    EXPECT_TRUE(each.value().allclose(need[each.key()], 1e-12, 1e-12)) << where << ' ' << each.key();
}

TEST(SynchronisedNorm, ResNetIsThatOfOneProcess) {
  constexpr int kSteps = 5;
  std::vector<Tensors> gradients;
  const auto plain = network<ResNet>();
  plain->train();
  torch::optim::AdamW plain_optimizer(plain->parameters(), adamw());
  for (int step = 0; step < kSteps; ++step) {
    plain_optimizer.zero_grad();
    loss(*plain, step, 0, kRows).backward();
    gradients.push_back(of_plain(*plain, [](const at::Tensor& each) { return each.grad(); }));
    plain_optimizer.step();
  }
  const Tensors weights = of_plain(*plain, [](const at::Tensor& each) { return each; });
  for (const GridShape& grid : wrapped_grids())
    for (const std::vector<std::string>& units : {std::vector<std::string>{}, {"blocks.*"}}) {
      Context context(test_environment(), grid, {.dtype = at::kDouble});
      const auto net = network<ResNetOf<nn::BatchNorm2d>>();
      const WrappedModule parameters = shard(context, *net, {.units = units});
      torch::optim::AdamW optimizer(parameters.local(), adamw());
      const std::string where = "on " + grid.to_string();
      for (int step = 0; step < kSteps; ++step) {
        auto open = context.begin_step();
        my_loss(*net, context, step).backward();
        open.finish();
        if (step == 0) expect_local(parameters, gradients[0], /*gradients=*/true, 1e-12, where);
        optimizer.step();
      }
      expect_local(parameters, weights, /*gradients=*/false, 1e-10, where);
      expect_same_buffers(*net, *plain, where);
    }
}

template <typename Norm>
struct Normed : torch::nn::Module {
  explicit Normed(const torch::nn::BatchNormOptions& options) : norm(options) {
    scale = register_parameter("scale", torch::full({1}, 2.0, torch::kDouble));
    register_module("norm", norm);
    to(torch::kDouble);
  }
  at::Tensor forward(const at::Tensor& x) { return norm(x) * scale; }
  at::Tensor scale;
  Norm norm;
};

// Group i has i rows more than the first one, which has `first`.
void expect_rows_of_any_number(const torch::nn::BatchNormOptions& options, int64_t first, const std::string& what) {
  for (const GridShape& grid : wrapped_grids()) {
    Context context(test_environment(), grid, {.dtype = at::kDouble});
    const RowShare share = context.row_share();
    const int64_t mine = share.mine, begin = mine * first + mine * (mine - 1) / 2, rows = first + mine,
                  all = share.groups * first + share.groups * (share.groups - 1) / 2;
    torch::manual_seed(3);
    const at::Tensor whole = torch::randn({all, 5, 3}, torch::kDouble) * 3 + 1,
                     weights = torch::randn({all, 5, 3}, torch::kDouble);
    Normed<torch::nn::BatchNorm1d> plain(options);
    Normed<nn::BatchNorm1d> net(options);
    const WrappedModule parameters = shard(context, net);
    for (int step = 0; step < 2; ++step) {
      const at::Tensor x = (whole * (1 + step)).requires_grad_();
      plain.zero_grad();
      const at::Tensor need = plain.forward(x);
      (need * weights).sum().backward();
      const at::Tensor part = x.detach().narrow(0, begin, rows).clone().requires_grad_();
      auto open = context.begin_step();
      const at::Tensor got = net.forward(part);
      (got * weights.narrow(0, begin, rows)).sum().backward();
      open.finish();
      EXPECT_TRUE(got.allclose(need.narrow(0, begin, rows), 1e-12, 1e-12)) << what;
      EXPECT_TRUE(part.grad().allclose(x.grad().narrow(0, begin, rows), 1e-11, 1e-12)) << what;
      expect_local(parameters, of_plain(plain, [](const at::Tensor& each) { return each.grad(); }), /*gradients=*/true,
                   1e-12, what);
    }
    expect_same_buffers(net, plain, what);
    const at::NoGradGuard no_grad;
    net.eval();
    plain.eval();
    const auto gathered = parameters.gathered();
    EXPECT_TRUE(net.forward(whole).allclose(plain.forward(whole), 1e-12, 1e-12)) << what;
  }
}

TEST(SynchronisedNorm, TakesRowsOfAnyNumber) {
  expect_rows_of_any_number(torch::nn::BatchNormOptions(5), 2, "two rows and more");
  expect_rows_of_any_number(torch::nn::BatchNormOptions(5).momentum(std::nullopt).eps(1e-3), 1, "average of all steps");
  expect_rows_of_any_number(torch::nn::BatchNormOptions(5).affine(false), 1, "without weights");
  expect_rows_of_any_number(torch::nn::BatchNormOptions(5).track_running_stats(false), 1, "without statistics");
  if (wrapped_grids().front().z * wrapped_grids().front().data > 1)
    expect_rows_of_any_number(torch::nn::BatchNormOptions(5), 0, "a rank without rows");
}

// Statistics of 16-bit numbers are fp32's.
TEST(SynchronisedNorm, ComputesInFp32ForBf16) {
  Context context(test_environment(), wrapped_grids().front(), {.dtype = at::kBFloat16});
  Normed<nn::BatchNorm1d> net(torch::nn::BatchNormOptions(5));
  net.to(torch::kFloat);
  const WrappedModule parameters = shard(context, net);
  torch::manual_seed(3 + context.row_share().mine);
  const at::Tensor x = (torch::randn({64, 5}) + 100).to(torch::kBFloat16).requires_grad_();
  auto open = context.begin_step();
  const at::Tensor y = net.forward(x);
  EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
  y.sum().backward();
  open.finish();
  EXPECT_EQ(net.norm->running_mean.scalar_type(), torch::kFloat);
  EXPECT_TRUE(net.norm->running_mean.allclose(torch::full({5}, 10.0F), 1e-2, 0)) << net.norm->running_mean;
}

TEST(SynchronisedNorm, RefusesOneNumberPerChannel) {
  Context context(test_environment(), wrapped_grids().front(), {.dtype = at::kDouble});
  Normed<nn::BatchNorm1d> net(torch::nn::BatchNormOptions(5));
  const WrappedModule parameters = shard(context, net);
  auto open = context.begin_step();
  const int64_t rows = context.row_share().mine == 0 ? 1 : 0;
  EXPECT_USER_ERROR(net.forward(torch::ones({rows, 5}, torch::kDouble)), "'norm' has one number per channel",
                    "call eval()");
  open.abandon();
  EXPECT_USER_ERROR(shard(context, net), "wrapped before");
}

}  // namespace
}  // namespace axonn
