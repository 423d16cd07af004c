// Parameters of the module that are written: taken over, or refused by name, on every grid.
#include <new>
#include <optional>

#include <c10/core/CPUAllocator.h>
#include <torch/nn/init.h>

#include "wrap/fence/habits.hpp"

namespace axonn {
namespace {

using namespace test;

TEST(WrittenWeights, AnEditWhileGatheredLivesIsNamed) {
  for (const GridShape& grid : wrapped_grids()) {
    Program program(grid);
    program.step();
    {
      const at::NoGradGuard no_grad;
      const auto whole = program.parameters.gathered();
      program.net->a->weight.mul_(2);
    }
    EXPECT_USER_ERROR(program.context.begin_step(), "'a.weight'", "write_back");
    program.step();  // once told, it is forgotten
    {
      const at::NoGradGuard no_grad;
      const auto whole = program.parameters.gathered();
      torch::nn::init::zeros_(program.net->b->bias);  // lies on every rank
    }
    EXPECT_USER_ERROR(program.parameters.gathered(), "'b.bias'", "write_back");
  }
}

TEST(WrittenWeights, AWritePastTheVersionCounterIsNamedToo) {
  Program program;
  {
    const auto whole = program.parameters.gathered();
    program.net->a->weight.data().mul_(2);
  }
  EXPECT_USER_ERROR(program.step(), "'a.weight'", "write_back");
}

TEST(WrittenWeights, ASwapThatPutsTheOldValuesBackIsFine) {
  Program program;
  program.step();
  const double before = program.weight("a.weight");
  {
    const at::NoGradGuard no_grad;
    const auto whole = program.parameters.gathered();
    std::vector<at::Tensor> kept;
    for (const at::Tensor& each : program.net->parameters()) kept.push_back(each.clone());
    for (at::Tensor& each : program.net->parameters()) each.mul_(0.5);
    const auto parameters = program.net->parameters();
    for (size_t i = 0; i < kept.size(); ++i) parameters[i].copy_(kept[i]);
  }
  EXPECT_EQ(program.weight("a.weight"), before);
  program.step();
}

TEST(WrittenWeights, AnEditInAStepIsNamed) {
  for (const char* name : {"a.weight", "a.bias"}) {
    Program program;
    auto step = program.context.begin_step();
    {
      const at::NoGradGuard no_grad;
      program.net->named_parameters()[name].mul_(2);
    }
    program.loss().backward();
    EXPECT_USER_ERROR(step.finish(), name, "write_back");
    step.abandon();
    program.step();
  }
}

TEST(WrittenWeights, AnEditOfAUnitThatComputesIsNamed) {
  struct Doubles : torch::nn::Module {
    Doubles() : linear(64, 64) { register_module("linear", linear); }
    at::Tensor forward(const at::Tensor& x) {
      if (doubles) {
        const at::NoGradGuard no_grad;
        linear->weight.mul_(2);
      }
      return linear(x);
    }
    torch::nn::Linear linear;
    bool doubles = false;
  };
  Context context(test_environment(), wrapped_grids().front(), {.dtype = at::kDouble});
  const auto child = std::make_shared<Doubles>();
  const auto net = std::make_shared<torch::nn::SequentialImpl>(child, torch::nn::Linear(64, 40));
  net->to(torch::kDouble);
  const WrappedModule parameters = shard(context, *net, {.units = {"*"}});
  const auto pass = [&] {
    auto step = context.begin_step();
    net->forward(torch::ones({4, 64}, torch::kDouble)).sum().backward();
    step.finish();
  };
  pass();
  child->doubles = true;
  // Backward computes with other weights than forward, which LibTorch notices first.
  EXPECT_ANY_THROW(pass());
}

TEST(WrittenWeights, AnEditOutsideAStepIsNamed) {
  Program program;
  {
    const at::NoGradGuard no_grad;
    program.net->a->bias.fill_(3);
  }
  EXPECT_USER_ERROR(program.context.begin_step(), "'a.bias'", "write_back");
}

// Memory that ends with this thread's allocation number `left`.
class ShortMemory final : public c10::Allocator {
 public:
  explicit ShortMemory(int left) : whole_(c10::GetCPUAllocator()) {
    left_ = left;
    c10::SetCPUAllocator(this, 100);
  }
  ~ShortMemory() override {
    left_ = -1;
    c10::SetCPUAllocator(whole_, 100);
  }
  c10::DataPtr allocate(size_t bytes) override {
    if (left_ >= 0 && left_-- == 0) throw std::bad_alloc();
    return whole_->allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return whole_->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override { whole_->copy_data(to, from, bytes); }

 private:
  c10::Allocator* whole_;
  static inline thread_local int left_ = -1;
};

TEST(WrittenWeights, AGatherThatFindsNoMemoryHoldsNothing) {
  if (test_environment().ranks() == 1) GTEST_SKIP() << "one rank gathers nothing";
  for (const bool write_back : {false, true}) {
    int failed = 0;
    for (bool fails = true; fails; failed += fails ? 1 : 0) {
      Program program(GridShape{.z = test_environment().ranks()}, {.units = {"body.*"}});  // no memory is kept yet
      fails = false;
      try {
        std::optional<ShortMemory> memory(failed);
        const auto whole = program.parameters.gathered({.write_back = write_back});
        memory.reset();  // not while it ends
      } catch (const std::bad_alloc&) {
        fails = true;
      }
      EXPECT_GT(program.weight("a.weight"), 0);
      program.step();
    }
    EXPECT_GT(failed, 0);
  }
}

TEST(WrittenWeights, WriteBackTakesTheFirstRanksValuesOnEveryGrid) {
  std::vector<double> sums;
  for (const GridShape& grid : wrapped_grids()) {
    for (const bool units : {false, true}) {
      Program program(grid, units ? ShardOptions{.units = {"body.*"}} : ShardOptions{});
      program.step();
      {
        const at::NoGradGuard no_grad;
        const auto whole = program.parameters.gathered({.write_back = true});
        if (program.context.rank() == 0)  // as one who reads a file there
          for (at::Tensor& each : program.net->parameters()) each.fill_(0.25);
      }
      double sum = 0;
      for (const char* name : {"a.weight", "b.bias"}) {
        sum += program.weight(name);
      }
      EXPECT_DOUBLE_EQ(sum, 0.25 * (40 * 64 + 40)) << grid.to_string();
      program.step();
      sums.push_back(program.weight("a.weight"));
    }
  }
  for (const double sum : sums) EXPECT_NEAR(sum, sums.front(), 1e-9);
}

TEST(WrittenWeights, WriteBackKeepsWhatNobodyWrote) {
  Context context(test_environment(), wrapped_grids().front(), {.dtype = at::kBFloat16});
  const auto net = network<Habits>();
  net->to(torch::kFloat);
  const WrappedModule parameters = shard(context, *net);
  const auto before = parameters.local()[0].detach().clone();  // fp32: bf16 would round it
  {
    const at::NoGradGuard no_grad;
    const auto whole = parameters.gathered({.write_back = true});
    net->b->weight.fill_(0.5);
  }
  EXPECT_TRUE(parameters.local()[0].detach().equal(before));
  EXPECT_EQ(parameters.names().front(), "a.weight");
}

TEST(WrittenWeights, WriteBackIsRefusedWhereItCannotBe) {
  Program program;
  {
    auto step = program.context.begin_step();
    EXPECT_USER_ERROR(program.parameters.gathered({.write_back = true}), "between steps");
    step.abandon();
  }
  const auto whole = program.parameters.gathered();
  EXPECT_USER_ERROR(program.parameters.gathered({.write_back = true}), "no other result");
}

TEST(WrittenWeights, AParameterThatComesLaterIsNamed) {
  Program program;
  program.step();
  program.net->register_module("extra", torch::nn::Linear(40, 40));
  EXPECT_USER_ERROR(program.context.begin_step(), "'extra.weight'", "registered after shard()");
  Program replaced;
  replaced.net->b->weight = replaced.net->b->register_parameter("more", torch::zeros({2}, torch::kDouble));
  EXPECT_USER_ERROR(replaced.context.begin_step(), "'b.more'");
}

}  // namespace
}  // namespace axonn
