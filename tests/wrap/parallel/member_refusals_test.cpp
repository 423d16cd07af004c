// Refusals of typed members and their pairs, and their words.
#include "support/user_error.hpp"
#include "wrap/parallel/member_networks.hpp"

namespace axonn {
namespace {

using namespace test;

// Some members, and what a test does with them.
struct Members : members::nn::Module {
  Members()
      : words(9, 8),
        up(8, 16),
        down(16, 8),
        narrow(12, 8),
        images(members::nn::Conv2dOptions(8, 16, 3)),
        norm(members::nn::LayerNormOptions({16})) {
    register_module("words", words);
    register_module("up", up);
    register_module("down", down);
    register_module("narrow", narrow);
    register_module("images", images);
    register_module("norm", norm);
    register_module("chain", chain);
  }
  members::nn::Embedding words;
  members::nn::Linear up, down, narrow;
  members::nn::Conv2d images;
  members::nn::LayerNorm norm;
  members::nn::Linear child = members::nn::Linear(8, 16);
  members::nn::Sequential chain = members::nn::Sequential(child, members::nn::ReLU());
};

#define EXPECT_PAIR_REFUSED(pair, ...)                           \
  do {                                                           \
    Context context_ = make_context();                           \
    const auto net = std::make_shared<Members>();                \
    net->to(torch::kDouble);                                     \
    pair;                                                        \
    EXPECT_USER_ERROR(parallelize(context_, *net), __VA_ARGS__); \
  } while (false)

TEST(MemberRefusals, PairsThatDoNotFit) {
  using members::nn::keep_split;
  EXPECT_PAIR_REFUSED(keep_split(net->up, net->narrow), "'narrow' takes 12 features", "'up' gives 16");
  EXPECT_PAIR_REFUSED(keep_split(net->images, net->down), "'down' takes features in the last dim",
                      "'images' gives channels", "keep_split()");
  EXPECT_PAIR_REFUSED(keep_split(net->up, net->words), "'words' takes numbers of words", "'up'");
  EXPECT_PAIR_REFUSED(keep_split(net->up, net->down, {.heads = 3}), "'up' has 16 output features", "3 heads");
  EXPECT_PAIR_REFUSED(keep_split(net->up, net->down, {.parts = 3}), "16 output features", "3 equal parts");
  EXPECT_PAIR_REFUSED(keep_split(net->images, net->images, {.parts = 2}), "'images'", "its own output");
  EXPECT_PAIR_REFUSED(keep_split(net->words, net->up, {.parts = 2}), "'words' is no Linear", ".parts");
  EXPECT_PAIR_REFUSED((keep_split(net->up, net->down), keep_split(net->down, net->up)), "its own output", "pairs");
  EXPECT_PAIR_REFUSED((keep_split(net->words, net->up), keep_split(net->down, net->up)), "'up'", "'words'");
  EXPECT_PAIR_REFUSED(keep_split(net->up, net->child), "'chain.0' is a child of a Sequential", "keep_split()");
  EXPECT_PAIR_REFUSED((keep_split(net->child, net->down)), "'chain.0' is a child of a Sequential", "keep_split()");
  const members::nn::Linear elsewhere(8, 16);
  EXPECT_PAIR_REFUSED(keep_split(elsewhere, net->down), "'down'", "not registered", "register_module()");
  EXPECT_PAIR_REFUSED(keep_split(net->down, elsewhere), "'down' keeps its output split", "register_module()");
}

TEST(MemberRefusals, SettingsOfAPair) {
  const members::nn::Linear first(4, 8), second(8, 4), third(8, 4);
  EXPECT_USER_ERROR(members::nn::keep_split(first, second, {.heads = -1}), ".heads >= 0", "-1");
  members::nn::keep_split(first, second, {.heads = 2});
  members::nn::keep_split(first, third, {.heads = 2});
  EXPECT_USER_ERROR(members::nn::keep_split(first, third), "two ways");
}

TEST(MemberRefusals, WhatACallGetsWrong) {
  Context context = make_context();
  {
    const auto net = std::make_shared<Members>();
    net->to(torch::kDouble);
    members::nn::keep_split(net->up, net->down);
    const WrappedModule parameters = parallelize(context, *net);
    const at::Tensor x = torch::ones({4, 8}, torch::kDouble);
    EXPECT_USER_ERROR(net->up(x), "'up' is used outside a step", "parameters.gathered()");
    EXPECT_USER_ERROR(parallelize(context, *net), "parallelized before");
    EXPECT_USER_ERROR(shard(context, *net), "was wrapped before");
    EXPECT_USER_ERROR(members::nn::keep_split(net->up, net->narrow), "parallelized before");
    try {
      net->up->weight.sum();
      ADD_FAILURE() << "no error";
    } catch (const c10::Error& error) {
      EXPECT_NE(std::string(error.what()).find("'up.weight' is divided by axonn::parallelize()"), std::string::npos);
    }
    auto step = context.begin_step();
    EXPECT_EQ(net->down(net->up(x)).size(1), 8);
    EXPECT_USER_ERROR(net->up(torch::ones({4, 9}, torch::kDouble)), "9");
    if (context.shape().x > 1)
      EXPECT_USER_ERROR(net->down(torch::ones({4, 16}, torch::kDouble)), "'down' takes", "of 16 features on this rank");
    step.abandon();
  }
  const auto single = std::make_shared<Members>();
  single->to(torch::kDouble);
  const WrappedModule parameters = shard(context, *single);  // there they are LibTorch's
  auto step = context.begin_step();
  EXPECT_EQ(single->down(single->up(torch::ones({4, 8}, torch::kDouble))).size(1), 8);
  step.abandon();
}

}  // namespace
}  // namespace axonn
