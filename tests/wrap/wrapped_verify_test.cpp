// verify(): a wrapped module beside the plain one.
#include <vector>

#include "axonn/wrap/verify_module.hpp"
#include "support/user_error.hpp"
#include "wrap/wrapped.hpp"

namespace axonn {
namespace {

using namespace test;

template <typename Net>
PlainNetwork plain_network() {
  const auto net = network<Net>();
  return {net, [net](const BatchOfRows& rows) { return (net->forward(rows[0]) * rows[1]).sum(); }};
}

template <typename Net>
std::vector<BatchOfRows> batches_of() {
  torch::manual_seed(20);
  std::vector<BatchOfRows> batches;
  for (int i = 0; i < 2; ++i) {
    const at::Tensor input = Net::input();
    batches.push_back({input, torch::randn_like(network<Net>()->forward(input))});
  }
  return batches;
}

VerifyOptions with_units(std::vector<std::string> units) {
  return {.wrap = [units](Context& context, torch::nn::Module& module) {
    return shard(context, module, {.units = units});
  }};
}

Context make_context() { return Context(test_environment(), wrapped_grids().front(), {.dtype = at::kDouble}); }

template <typename Net>
void expect_verified(const std::vector<std::string>& units) {
  for (const GridShape& grid : wrapped_grids()) {
    Context context(test_environment(), grid, {.dtype = at::kDouble});
    const Verification result = verify(context, plain_network<Net>, batches_of<Net>(), with_units(units));
    EXPECT_TRUE(result.passes()) << grid.to_string() << '\n' << result.table();
    EXPECT_EQ(result.differences.size(),
              1 + of_plain(*network<Net>(), [](const at::Tensor& each) { return each; }).size());
  }
}

TEST(WrappedVerify, FindsWrappedModulesEqual) {
  expect_verified<ResNet>({"blocks.*"});
  expect_verified<LstmModel<Unit<torch::nn::LSTM>>>({});
  expect_verified<Tied>({});
}

// A fault of one rank is seen on all of them, and the tensor is named.
TEST(WrappedVerify, FindsOneBrokenGradient) {
  Context context = make_context();
  for (const int64_t broken_batch : {0, 1}) {
    int made = 0;
    const auto make = [&] {
      const PlainNetwork plain = plain_network<ResNet>();
      if (++made == 1 || test_environment().rank() + 1 < test_environment().ranks()) return plain;
      const auto calls = std::make_shared<int64_t>(0);
      plain.module->named_parameters()["blocks.b.second.weight"].register_hook(
          [calls, broken_batch](const at::Tensor& gradient) {
            return (*calls)++ == broken_batch ? gradient * (1 + 1e-10) : gradient;
          });
      return plain;
    };
    const Verification result = verify(context, make, batches_of<ResNet>(), with_units({"blocks.*"}));
    EXPECT_FALSE(result.passes());
    const double worst = result.worst("gradient blocks.b.second.weight");
    EXPECT_TRUE(worst > 2e-12 && worst < 1e-9) << worst;
    for (const Difference& each : result.differences)
      EXPECT_EQ(each.passes(), each.what != "gradient blocks.b.second.weight") << result.table();
    const std::string table = result.table();
    EXPECT_NE(table.find("gradient blocks.b.second.weight "), std::string::npos) << table;
    EXPECT_EQ(table.find("FAILED"), table.rfind("FAILED")) << table;
    EXPECT_NE(table.find("NOT equal"), std::string::npos) << table;
  }
}

// A loss that counts rows twice on one rank: loss and gradients differ.
TEST(WrappedVerify, FindsAWrongLoss) {
  Context context = make_context();
  int made = 0;
  const auto make = [&] {
    PlainNetwork plain = plain_network<ResNet>();
    if (++made == 2 && test_environment().rank() == 0)
      plain.loss_sum = [right = plain.loss_sum](const BatchOfRows& rows) { return right(rows) * 2; };
    return plain;
  };
  const Verification result = verify(context, make, batches_of<ResNet>());
  EXPECT_GT(result.worst("loss"), 1e-3);
  EXPECT_GT(result.worst("gradient head.weight"), 1e-3);
}

struct Dropping : torch::nn::Module {
  Dropping() : fc(4, 4) {
    register_module("fc", fc);
    register_module("drop", drop);
  }
  at::Tensor forward(const at::Tensor& x) { return drop(fc(x)); }
  static at::Tensor input() { return torch::randn({kRows, 4}, torch::kDouble); }
  torch::nn::Linear fc;
  torch::nn::Dropout drop;
};

TEST(WrappedVerify, RefusesWhatCannotBeCompared) {
  Context context = make_context();
  const auto make = plain_network<ResNet>;
  const auto batches = batches_of<ResNet>();
  EXPECT_USER_ERROR(verify(context, make, {}), "no batch");
  EXPECT_USER_ERROR(verify(context, make, {{}}), "no tensor");
  EXPECT_USER_ERROR(verify(context, make, {{batches[0][0], batches[0][1].narrow(0, 0, 2)}}), "same number of rows",
                    "[12, 3, 8, 8]", "[2, 10]");
  if (context.row_share().groups > 1)
    EXPECT_USER_ERROR(verify(context, make, {{batches[0][0].narrow(0, 0, 1), batches[0][1].narrow(0, 0, 1)}}),
                      "z * data = " + std::to_string(context.row_share().groups), "got 1");
  EXPECT_USER_ERROR(verify(context, plain_network<Dropping>, batches_of<Dropping>()), "random numbers", "eval()");
  EXPECT_USER_ERROR(verify(
                        context,
                        [&] {
                          PlainNetwork plain = make();
                          plain.loss_sum = [](const BatchOfRows& rows) { return rows[0]; };
                          return plain;
                        },
                        batches),
                    "one number with a gradient");
  int made = 0;
  EXPECT_USER_ERROR(verify(
                        context,
                        [&] {
                          PlainNetwork plain = make();
                          if (++made == 2) plain.module->register_buffer("more", torch::zeros({1}));
                          return plain;
                        },
                        batches),
                    "two different networks");
  Context narrow(test_environment(), wrapped_grids().front(), {.dtype = at::kBFloat16});
  EXPECT_USER_ERROR(verify(narrow, make, batches), "fp64 or fp32", "BFloat16");
}

}  // namespace
}  // namespace axonn
