// The order of calls in a step, and what is left when it is not kept.
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>

#include "wrap/fence/habits.hpp"

namespace axonn {
namespace {

using namespace test;

// The text of what `action` throws, of any kind.
template <typename Action>
std::string thrown(Action action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

void expect_names_finish(const std::string& text, const std::string& what) {
  EXPECT_NE(text.find("step.finish()"), std::string::npos) << what << ": " << text;
  EXPECT_NE(text.find("gradient of '"), std::string::npos) << what << ": " << text;
}

TEST(StepOrder, GradientsAreNotReadBeforeFinish) {
  Program program;
  torch::optim::AdamW adamw(program.parameters.local(), torch::optim::AdamWOptions(1e-3));
  torch::optim::RMSprop rmsprop(program.parameters.local(), torch::optim::RMSpropOptions(1e-3));
  const auto early = [&](const auto& use) {
    auto step = program.context.begin_step();
    program.loss().backward();
    const std::string text = thrown(use);
    step.abandon();
    return text;
  };
  expect_names_finish(early([&] { program.optimizer.step(); }), "SGD");
  expect_names_finish(early([&] { adamw.step(); }), "AdamW");
  expect_names_finish(early([&] { rmsprop.step(); }), "RMSprop");
  expect_names_finish(early([&] { torch::nn::utils::clip_grad_norm_(program.parameters.local(), 1.0); }), "clip");
  expect_names_finish(early([&] { clip_grad_norm_(program.parameters, 1.0); }), "axonn's clip");
  program.step();
}

TEST(StepOrder, GradientsAreNotReadFromTheModule) {
  for (const GridShape& grid : wrapped_grids()) {
    Program program(grid, {.units = {"body.*"}});
    torch::optim::SGD sgd(program.net->parameters(), torch::optim::SGDOptions(0.1));
    torch::optim::AdamW adamw(program.net->b->parameters(), torch::optim::AdamWOptions(1e-3).weight_decay(0));
    program.pass();
    const auto expect_names_local = [](const std::string& text, bool of_weight = false) {
      const bool names = text.find("make the optimizer of parameters.local()") != std::string::npos;
      EXPECT_TRUE(names || (of_weight && text.find("is sharded by axonn::shard()") != std::string::npos)) << text;
    };
    expect_names_local(thrown([&] { sgd.step(); }), /*of_weight=*/true);  // whichever is read first
    expect_names_local(thrown([&] { adamw.step(); }), /*of_weight=*/true);
    expect_names_local(thrown([&] { torch::nn::utils::clip_grad_norm_(program.net->parameters(), 1.0); }));
    expect_names_local(thrown([&] { program.net->a->bias.grad().sum().item<double>(); }));
    program.net->zero_grad();
    EXPECT_FALSE(program.net->a->weight.grad().defined());
    program.optimizer.step();
    program.step();
  }
}

TEST(StepOrder, ZeroGradInTheStepHidesNothing) {
  Program program;
  auto step = program.context.begin_step();
  program.optimizer.zero_grad();
  program.loss().backward();
  expect_names_finish(thrown([&] { program.optimizer.step(); }), "after zero_grad()");
  step.finish();
  program.optimizer.step();
  program.step();
}

TEST(StepOrder, LocalIsNotWrittenInAStep) {
  Program program;
  auto step = program.context.begin_step();
  program.loss().backward();
  {
    const at::NoGradGuard no_grad;
    for (const at::Tensor& each : program.parameters.local()) each.mul_(0.5);
  }
  EXPECT_USER_ERROR(step.finish(), "local()", "after step.finish()");
  step.abandon();
}

TEST(StepOrder, AGraphOfAStepThatIsOverSaysSo) {
  Program program;  // 1x1x2x2 or the like: 'a.weight' is lent
  auto step = program.context.begin_step();
  const at::Tensor loss = program.loss();
  loss.backward({}, /*keep_graph=*/true);
  step.finish();
  const std::string text = thrown([&] { loss.backward(); });
  const bool lent = wrapped_grids().front().z > 1;
  EXPECT_NE(text.find(lent ? "the graph of a step that is over" : "outside a step"), std::string::npos) << text;
}

TEST(StepOrder, ASecondBackwardIsNamedAndTheRunGoesOn) {
  Program program, other;
  program.step();
  {
    auto step = program.context.begin_step();
    const at::Tensor loss = program.loss();
    loss.backward({}, /*keep_graph=*/true);
    EXPECT_USER_ERROR(loss.backward(), "micro_batches = n");
    step.abandon();
  }
  program.step();
  other.step();
  other.step();
  EXPECT_EQ(program.weight("a.weight"), other.weight("a.weight"));
}

}  // namespace
}  // namespace axonn
