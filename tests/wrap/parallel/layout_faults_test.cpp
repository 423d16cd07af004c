// ShardOptions::check_layouts: what a forward computes wrongly with a split tensor is an error of
// that operation, on all ranks.
#include <cstdlib>

#include <torch/nn/functional/loss.h>

#include "support/user_error.hpp"
#include "wrap/check/followed_call.hpp"
#include "wrap/parallel/layout_pair.hpp"

namespace axonn {
namespace {

using namespace test;
using namespace test::layouts;

struct Fault {
  std::string operation;
  Pair::Between between;
  std::string reason = "gives other numbers than of the whole tensor";
};

// Each is found by all ranks, which go on together.
void expect_found(const std::vector<Fault>& faults, const KeepSplit& options = {}) {
  Context context = grid_over_x();
  const auto net = make_pair_of(options);
  const WrappedModule parameters = parallelize(context, *net, {.check_layouts = true});
  for (const Fault& each : faults) {
    SCOPED_TRACE(each.operation);
    net->between = each.between;
    auto step = context.begin_step();
    EXPECT_USER_ERROR(net->forward(rows(0, 6)), "'" + each.operation + "'", "the split output of 'up' (sizes [",
                      "of 2 along x", "keep_split()", each.reason);
    step.abandon();
  }
}

TEST(LayoutFaults, FindsWhatTakesOrdersOrSumsSplitFeatures) {
  ON_TWO_OR_FOUR_RANKS();
  expect_found({
      {"softmax", [](Pair&, const Tensor& h) { return torch::softmax(h, -1); }},
      {"log_softmax", [](Pair&, const Tensor& h) { return torch::log_softmax(torch::relu(h), 1); }},
      {"mean", [](Pair&, const Tensor& h) { return h - h.mean(-1, true); }},
      {"mean", [](Pair&, const Tensor& h) { return h * h.mean(); }},
      {"amax", [](Pair&, const Tensor& h) { return h / h.abs().amax(-1, true); }},
      {"norm", [](Pair&, const Tensor& h) { return h / h.norm(2, -1, true); }},
      {"slice", [](Pair&, const Tensor& h) { return torch::cat({h.slice(1, 0, 6), h.slice(1, 6)}, 1); }},
      {"select", [](Pair&, const Tensor& h) { return h * h.select(1, 0).unsqueeze(1); }},
      {"chunk", [](Pair&, const Tensor& h) { return torch::cat(h.chunk(2, -1), -1); }},  // without .parts
      {"flip", [](Pair&, const Tensor& h) { return h.flip(-1); }},
      {"roll", [](Pair&, const Tensor& h) { return h.roll(1, -1); }},
      {"cumsum", [](Pair&, const Tensor& h) { return h.cumsum(-1); }},
      {"sort", [](Pair&, const Tensor& h) { return std::get<0>(h.sort(-1)); }},
      {"argmax", [](Pair&, const Tensor& h) { return h * h.argmax(-1, true); }},
      {"cross_entropy_loss",
       [](Pair&, const Tensor& h) { return torch::nn::functional::cross_entropy(h, torch::zeros({6}, at::kLong)); }},
      {"sum", [](Pair&, const Tensor& h) { return h.pow(2).sum(); }},
      {"group_norm", [](Pair&, const Tensor& h) { return torch::group_norm(h, 2); }},
      {"view", [](Pair&, const Tensor& h) { return h.view({6, 2, -1}).softmax(-1).flatten(1); }},  // two groups
      {"layer_norm", [](Pair&, const Tensor& h) { return torch::layer_norm(h, {h.size(-1)}); }},
  });
}

TEST(LayoutFaults, FindsWhatOtherTensorsMakeWrong) {
  ON_TWO_OR_FOUR_RANKS();
  const std::string gradient = "requires a gradient", random = "draws random numbers";
  expect_found({
      {"mul", [](Pair& net, const Tensor& h) { return h * net.scale; }, gradient},
      {"mul_", [](Pair& net, const Tensor& h) { return torch::relu(h).mul_(net.scale); }, gradient},
      {"mul", [](Pair& net, const Tensor& h) { return h * torch::sigmoid(net.gate(net.input)); }, gradient},
      {"stack", [](Pair& net, const Tensor& h) { return torch::stack({h, net.scale.expand({6, 12})}).sum(0); },
       gradient},
      {"dropout", [](Pair&, const Tensor& h) { return torch::dropout(h, 0.5, true); }, random},
      {"randn_like", [](Pair&, const Tensor& h) { return h + torch::randn_like(h); }, random},
      {"bernoulli_", [](Pair&, const Tensor& h) { return h * h.detach().clone().bernoulli_(0.5); }, random},
      {"copy_",
       [](Pair&, const Tensor& h) {
         Tensor all = torch::empty({2, 6, 12}, torch::kDouble);
         all[0].copy_(h);
         return all[0];
       },
       "torch::stack()"},
      {"add", [](Pair&, const Tensor& h) { return h + torch::arange(h.size(1)); },
       "fits the features of this rank only"},
  });
}

TEST(LayoutFaults, FindsHeadsThatLieElsewhere) {
  ON_TWO_OR_FOUR_RANKS();
  expect_found({{"softmax",
                 [](Pair&, const Tensor& h) {
                   const Tensor heads = h.view({6, -1, 4});  // (rows, heads, width)
                   return torch::softmax(heads, 1).flatten(1);
                 }},
                {"matmul",
                 [](Pair&, const Tensor& h) {
                   const Tensor heads = h.view({6, 3, 4});  // 3 heads of this rank, written as a number
                   return torch::matmul(heads.transpose(1, 2), heads).flatten(1).slice(1, 0, 12);
                 }}},
               {.heads = 6});
}

TEST(LayoutFaults, FindsWhatMembersGetWrong) {
  ON_TWO_OR_FOUR_RANKS();
  Context context = grid_over_x();
  const auto net = make_pair_of({});
  const WrappedModule parameters = parallelize(context, *net, {.check_layouts = true});
  const auto refused = [&](const Pair::Between& between, const std::string& need, const std::string& also) {
    net->between = between;
    auto step = context.begin_step();
    EXPECT_USER_ERROR(net->forward(rows(0, 6)), need, also);
    step.abandon();
  };
  refused([](Pair& n, const Tensor& h) { return n.other(h); }, "'other' needs a whole tensor",
          "the split output of 'up'");
  refused([](Pair& n, const Tensor& h) { return n.gate(n.input) * torch::arange(h.size(1)); },
          "'down' takes a split tensor", "the same on all ranks");
  refused([](Pair&, const Tensor& h) { return h.view({6, -1, 4}).transpose(1, 2).reshape({6, -1}); },
          "'down' takes features as 'up' splits them", "keep their order");
}

// Embedding leaves its output over Y, and images have their channels in dim 1.
struct WordsAndImages : nn::Module {
  WordsAndImages()
      : words(9, 24),
        norm(nn::LayerNormOptions({24})),
        first(nn::Conv2dOptions(6, 7, 3)),
        second(nn::Conv2dOptions(7, 6, 1)),
        up(24, 24),
        down(24, 8) {
    register_module("words", words);
    register_module("norm", norm);
    register_module("first", first);
    register_module("second", second);
    register_module("up", up);
    register_module("down", down);
    nn::keep_split(words, norm);
    nn::keep_split(first, second);
    nn::keep_split(up, down);
  }
  nn::Embedding words;
  nn::LayerNorm norm;
  nn::Conv2d first, second;
  nn::Linear up, down;
};

TEST(LayoutFaults, FollowsBothAxesAndUnevenChannels) {
  ON_TWO_OR_FOUR_RANKS();
  torch::manual_seed(2);
  const Tensor ids = torch::randint(9, {4, 3}), images = torch::randn({4, 6, 8, 8}, torch::kDouble);
  const int ranks = test_environment().ranks();
  for (const bool over_y : {true, false}) {
    Context context(test_environment(), {.x = over_y ? 1 : ranks, .y = over_y ? ranks : 1}, {.dtype = at::kDouble});
    const auto net = std::make_shared<WordsAndImages>();
    net->to(torch::kDouble);
    const WrappedModule parameters = parallelize(context, *net, {.check_layouts = true});
    auto step = context.begin_step();
    if (over_y) {
      EXPECT_EQ(net->norm(torch::tanh(net->words(ids))).size(2), 24);
      EXPECT_USER_ERROR(torch::softmax(net->words(ids), -1), "'softmax' of the split output of 'words'", "along y");
    } else {
      const auto pooled = [](const Tensor& x) { return torch::softmax(torch::max_pool2d(x, 2).flatten(2), 2); };
      EXPECT_EQ(net->second(pooled(net->first(images)).view({4, -1, 3, 3})).size(1), 6);
      const Tensor channels = net->first(images);
      EXPECT_EQ(net->second(channels.view({4, channels.size(1), 9, 4})).size(1), 6);
      EXPECT_USER_ERROR(torch::softmax(channels, 1), "'softmax' of the split output of 'first'", "[4, 7, 6, 6] whole");
      EXPECT_USER_ERROR(channels.flatten(1).flip(1), "'flip'", "'first'", "[4, 252] whole");
    }
    step.abandon();
  }
}

TEST(LayoutFaults, FindsWhatLiesOverDifferentAxes) {
  if (test_environment().ranks() != 4) GTEST_SKIP() << "on four ranks";
  Context context(test_environment(), {.x = 2, .y = 2}, {.dtype = at::kDouble});
  const auto net = std::make_shared<WordsAndImages>();
  net->to(torch::kDouble);
  const WrappedModule parameters = parallelize(context, *net, {.check_layouts = true});
  auto step = context.begin_step();
  const Tensor words = net->words(torch::arange(8).view({4, 2})), up = net->up(torch::ones({4, 2, 24}, torch::kDouble));
  EXPECT_USER_ERROR(words * up, "'mul' combines the split output of 'words'", "'up'", "split over different axes");
  EXPECT_USER_ERROR(net->down(torch::tanh(words)), "'down' takes a tensor that is split over x", "'words'");
  step.abandon();
}

// In evaluation too, by the switch of the environment, and no longer than it is needed.
TEST(LayoutFaults, ObeysTheEnvironmentAndEnds) {
  ON_TWO_OR_FOUR_RANKS();
  Context context = grid_over_x();
  const auto run = [&](bool finds) {
    const auto net = make_pair_of({});
    const WrappedModule parameters = parallelize(context, *net);
    net->between = [](Pair&, const Tensor& h) { return torch::softmax(h, -1); };
    const at::NoGradGuard no_grad;
    {
      const auto whole = parameters.gathered();
      if (finds)
        EXPECT_USER_ERROR(net->forward(rows(0, 6)), "'softmax'", "'up'");
      else
        EXPECT_TRUE(net->forward(rows(0, 6)).defined());
      EXPECT_EQ(c10::impl::tls_is_dispatch_key_included(kFollowing), finds);
    }
    EXPECT_FALSE(c10::impl::tls_is_dispatch_key_included(kFollowing));
    auto step = context.begin_step();
    const Tensor split = net->up(rows(0, 6));
    EXPECT_EQ(c10::impl::tls_is_dispatch_key_included(kFollowing), finds);
    step.abandon();
    EXPECT_FALSE(c10::impl::tls_is_dispatch_key_included(kFollowing));
    EXPECT_TRUE(split.mean().defined());
  };
  run(false);
  setenv("AXONN_CHECK_LAYOUTS", "1", 1);
  run(true);
  unsetenv("AXONN_CHECK_LAYOUTS");
}

}  // namespace
}  // namespace axonn
