// Objects that outlive their Context, or that an error leaves. Under ASan nothing is read after it
// was freed.
#include <thread>

#include "axonn/layers/linear.hpp"
#include "axonn/optim/make_optimizer.hpp"
#include "axonn/wrap/average.hpp"
#include "axonn/wrap/state_dict.hpp"
#include "support/scratch.hpp"
#include "wrap/fence/habits.hpp"

namespace axonn {
namespace {

using namespace test;

TEST(Lifetimes, AWrappedModuleOutlivesItsContext) {
  const auto made = [] {
    Program program;
    program.step();
    return std::make_pair(program.net, program.parameters);
  };
  const auto [net, parameters] = made();
  EXPECT_USER_ERROR(parameters.gathered(), "Context", "has gone");
  EXPECT_USER_ERROR(save_state_dict(parameters, "nothing.safetensors"), "has gone");
  if (wrapped_grids().front().z > 1) {
    EXPECT_ANY_THROW(net->forward(torch::ones({2, 40}, torch::kDouble)));
  }
  EXPECT_TRUE(parameters.local().front().isfinite().all().item<bool>());  // its memory is there
}

TEST(Lifetimes, AStepOutlivesItsContext) {
  std::unique_ptr<Program> program = std::make_unique<Program>();
  Step step = program->context.begin_step();
  program.reset();
  EXPECT_USER_ERROR(step.finish(), "has gone");
  EXPECT_USER_ERROR(step.abandon(), "has gone");
}

TEST(Lifetimes, AxonnsLayersOutliveTheirContext) {
  auto context =
      std::make_unique<Context>(test_environment(), wrapped_grids().front(), ContextOptions{.dtype = at::kDouble});
  Linear linear(*context, {.in = 64, .out = 32});
  const Parameters parameters = context->materialize(*linear, 1);
  const auto optimizer = make_optimizer(*context, parameters, {});
  context.reset();
  EXPECT_USER_ERROR(optimizer->step(), "has gone");
  EXPECT_USER_ERROR(linear->sharded_parameters().front().second.gathered(), "has gone");
}

TEST(Lifetimes, AGraphAndALeaseOutliveTheirContext) {
  at::Tensor loss;
  std::vector<at::Tensor> views;
  {
    Program program;
    auto step = program.context.begin_step();
    loss = program.loss();
    for (const at::Tensor& each : program.net->parameters()) views.push_back(each.detach());
  }
  EXPECT_ANY_THROW(loss.backward());
  views.clear();
}

// LibTorch keeps what is left of a graph whose backward has thrown until the thread's next one.
TEST(Lifetimes, AnErrorInBackwardLeavesAGraphInTheThread) {
  for (int i = 0; i < 3; ++i) {
    Program program;
    auto step = program.context.begin_step();
    const at::Tensor loss = program.loss();
    loss.backward({}, /*keep_graph=*/true);
    EXPECT_ANY_THROW(loss.backward());
  }
}

TEST(Lifetimes, TwoThreadsInStepsAreRefused) {
  Program first, second;
  auto step = first.context.begin_step();
  std::string text;
  std::thread([&] { text = user_error([&] { second.context.begin_step(); }); }).join();
  EXPECT_NE(text.find("another thread"), std::string::npos) << text;
  first.loss().backward();
  step.finish();
  std::thread([&] { second.step(); }).join();  // one after the other
}

}  // namespace
}  // namespace axonn
