// Pairs of a plan, by names, do what keep_split() in the module does.
#include <torch/nn/modules/linear.h>

#include "support/user_error.hpp"
#include "wrap/parallel/member_networks.hpp"

namespace axonn {
namespace {

using namespace test;
using members::PlannedTransformer;
using members::Transformer;

SplitPlan pairs_of_transformer() {
  return {{"first.query", Split::by_output, {.heads = 4}},
          {"first.key", Split::by_output, {.heads = 4}},
          {"first.value", Split::by_output, {.heads = 4}},
          {"*.qkv", Split::by_output, {.heads = 3, .parts = 3}},
          {"*.out", Split::by_input},
          {"first.up", Split::by_output},
          {"first.down", Split::by_input}};
}

TEST(SplitPlan, DoesWhatKeepSplitDoes) {
  const auto need = trained<Transformer>({}, 2);
  const auto got = trained<PlannedTransformer>({}, 2, nullptr, pairs_of_transformer());
  ASSERT_EQ(got.size(), need.size());
  for (size_t i = 0; i < need.size(); ++i) EXPECT_TRUE(got[i].equal(need[i])) << i;
}

// The width that `up` leaves on this rank, and the parameters that are divided.
std::pair<int64_t, size_t> widths(const SplitPlan& plan) {
  Context context = make_context();
  const auto net = network<PlannedTransformer>();
  const WrappedModule parameters = parallelize(context, *net, {.plan = plan});
  auto step = context.begin_step();
  const int64_t width = net->first->up(torch::ones({2, 3, 24}, torch::kDouble)).size(-1);
  step.abandon();
  size_t divided = 0;
  for (const FoundTensor& each : parameters.network().found().trained) divided += each.layer.has_value();
  return {width, divided};
}

TEST(SplitPlan, SaysWhatStaysSplitAndWhatStaysWhole) {
  const GridShape grid = parallel_grid();
  const auto [gathered, all] = widths({});
  EXPECT_EQ(gathered, 37);
  const auto [split, as_many] = widths(pairs_of_transformer());
  if (grid.x > 1) {
    EXPECT_LT(split, 37);
  }
  EXPECT_EQ(as_many, all);
  EXPECT_EQ(widths({{"scores", Split::whole}, {"*.out", Split::whole}}).second, all - 6);
}

struct Softened : members::nn::Module {
  Softened() : up(8, 16), down(16, 8) {
    register_module("up", up);
    register_module("down", down);
  }
  at::Tensor forward(const at::Tensor& x) { return down(torch::softmax(up(x), -1)); }
  members::nn::Linear up, down;
};

TEST(SplitPlan, ChecksLayoutsToo) {
  const SplitPlan plan = pairs_of_transformer();
  Context context = make_context();
  const auto right = network<PlannedTransformer>();
  const WrappedModule of_right = parallelize(context, *right, {.plan = plan, .check_layouts = true});
  const auto wrong = network<Softened>();
  const WrappedModule of_wrong = parallelize(
      context, *wrong, {.plan = {{"up", Split::by_output}, {"down", Split::by_input}}, .check_layouts = true});
  const at::NoGradGuard no_grad;
  const auto whole = of_right.gathered(), also_whole = of_wrong.gathered();
  torch::manual_seed(3);
  right->forward(PlannedTransformer::input());
  const at::Tensor x = torch::randn({3, 8}, torch::kDouble);
  if (context.shape().x == 1) {
    wrong->forward(x);
    return;
  }
  EXPECT_USER_ERROR(wrong->forward(x), "'softmax'", "'up'", "out of keep_split() or .plan");
}

TEST(SplitPlan, WhatFitsNoLineIsNamed) {
  const auto refused = [](const SplitPlan& plan, const std::vector<std::string>& texts, bool pairs = false) {
    Context context = make_context();
    const auto net = std::make_shared<Transformer>(pairs);
    net->register_module("plain", torch::nn::Linear(24, 24));
    net->register_module("chain", members::nn::Sequential(members::nn::Linear(24, 24)));
    net->to(torch::kDouble);
    const std::string sentence = user_error([&] { parallelize(context, *net, {.plan = plan}); });
    for (const std::string& text : texts) EXPECT_NE(sentence.find(text), std::string::npos) << sentence;
  };
  const NamedSplit up{"first.up", Split::by_output}, down{"first.down", Split::by_input};
  refused({{"frist.up", Split::whole}}, {"no module is named 'frist.up'", "first.up"});
  refused({up}, {"'first.up' keeps its output split", "Split::by_input"});
  refused({down}, {"'first.down' takes a split input", "Split::by_output"});
  refused({down, up}, {"'first.down' takes a split input"});
  refused({up, {"second.out", Split::by_input}}, {"'second.out' takes a split input", "of the same module"});
  refused({up, up, down}, {"'first.up'", "in two lines"});
  refused({up, down, down}, {"'first.down'", "in two lines"});
  refused({{"plain", Split::by_output}}, {"'plain' is a torch::nn::LinearImpl", "axonn::nn::Linear"});
  refused({{"chain.0", Split::by_output}}, {"'chain.0' is a child of a Sequential", "Split::whole"});
  refused({up, down}, {"'first.up' is in a pair of keep_split() already"}, /*pairs=*/true);
  refused({{"first.up", Split::by_output, {.parts = 0}}, down}, {".parts >= 1"});
  refused({{"first.up", Split::by_output, {.heads = 5}}, down}, {"'first.up' has 37 output features", "5 heads"});
  Context context = make_context();
  EXPECT_USER_ERROR(shard(context, *std::make_shared<Transformer>(), {.plan = {up}}), "call axonn::parallelize()");
}

}  // namespace
}  // namespace axonn
