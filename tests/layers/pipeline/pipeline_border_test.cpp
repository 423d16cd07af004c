// A network cut in two beside the whole network, and wrong use of the border. The ranks are an even
// number.
#include "axonn/layers/pipeline/pipeline_border.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ops/gelu.h>
#include <torch/nn/module.h>

#include "axonn/layers/activation_checkpoint.hpp"
#include "layers/layer_fixture.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

constexpr int64_t kWidth = 6, kHidden = 22, kRows = 16, kTime = 5;

// stream + dropout(down(gelu(up(stream)))). Its name in the network does not depend on the cut, and
// so its initial values do not either.
struct Half : torch::nn::Module {
  explicit Half(Context& context)
      : up(context, {.in = kWidth, .out = kHidden, .transposed = true}), down(context, {.in = kHidden, .out = kWidth}) {
    register_module("up", up.ptr());
    register_module("down", down.ptr());
  }
  Value hidden(const Value& stream) {
    return up(stream).map([](const at::Tensor& values) { return at::gelu(values); });
  }
  Value forward(const Value& stream) { return down->launch(hidden(stream), branch(stream)).wait(); }
  static AddTo branch(const Value& stream) { return {.stream = stream, .dropout = 0.3, .name = "half"}; }

  Linear up, down;
};

struct Halves : torch::nn::Module {
  Halves(Context& context, const std::vector<std::string>& names) {
    for (const std::string& name : names) halves.push_back(register_module(name, std::make_shared<Half>(context)));
  }
  std::vector<std::shared_ptr<Half>> halves;
};

PipelineStages halves() {
  PipelineStages stages;
  const int members = test_environment().ranks() / 2;
  for (int i = 0; i < members; ++i) {
    stages.first.push_back(i);
    stages.second.push_back(2 * members - 1 - i);
  }
  return stages;
}

bool in_first(const PipelineStages& stages) { return std::ranges::count(stages.first, test_environment().rank()) == 1; }

Context stage_context(const GridShape& grid, const PipelineStages& stages) {
  return Context(test_environment(), grid,
                 {.dtype = at::kDouble, .job_ranks = in_first(stages) ? stages.first : stages.second});
}

void set_samples(Context& context, int64_t step) {
  const int64_t groups = int64_t{context.shape().z} * context.shape().data,
                mine = int64_t{context.at().data} * context.shape().z + context.at().z;
  context.set_samples(
      {.seed = 5, .first = step * kRows + even_part(kRows, static_cast<int>(groups), static_cast<int>(mine)).begin});
}

at::Tensor input_at(int64_t step) { return whole_tensor(100 + step, {kRows, kTime, kWidth}); }

// The whole network on one rank, with dropout's samples of all rows.
class Uncut {
 public:
  Uncut()
      : context_(test_environment(), {}, {.dtype = at::kDouble, .job_ranks = {test_environment().rank()}}),
        network_(context_, {"first", "second"}),
        parameters_(context_.materialize(network_, 3)) {}

  // Two passes whose gradients are summed. Returns the sum of squares of the output.
  double step(int64_t number) {
    auto open = context_.begin_step({.micro_batches = 2});
    double loss = 0;
    for (const int64_t pass : {2 * number, 2 * number + 1}) {
      set_samples(context_, pass);
      input_ = input_at(pass).requires_grad_();
      const Value output =
          network_.halves[1]->forward(network_.halves[0]->forward({input_, kWidth, Layout::over(Axis::x)}));
      const at::Tensor sum = output.tensor.square().sum();
      sum.backward();
      loss += sum.item<double>();
    }
    open.finish();
    return loss;
  }
  at::Tensor gradient(const std::string& name) const { return parameters_[name].gradient(); }
  at::Tensor input_gradient() const { return input_.grad(); }  // the last pass only

 private:
  Context context_;
  Halves network_;
  Parameters parameters_;
  at::Tensor input_;
};

// This rank's half, in the same passes.
class Cut {
 public:
  explicit Cut(const GridShape& grid)
      : context_(stage_context(grid, halves())),
        border_(test_environment(), context_, halves()),
        name_(border_.first() ? "first" : "second"),
        network_(context_, {name_}),
        parameters_(context_.materialize(network_, 3)) {}

  double step(int64_t number) {
    auto open = context_.begin_step({.micro_batches = 2});
    double loss = 0;
    for (const int64_t pass : {2 * number, 2 * number + 1}) {
      set_samples(context_, pass);
      loss += border_.first() ? run_first(pass) : run_second(pass);
    }
    open.finish();
    return loss;
  }
  void expect_gradients_of(const Uncut& uncut) const {
    for (const std::string name : {".up.weight", ".up.bias", ".down.weight", ".down.bias"})
      expect_gradient(context_, parameters_[name_ + name], uncut.gradient(name_ + name), name_ + name);
    if (border_.first())
      expect_near(stream_.tensor.grad(), my_value(context_, uncut.input_gradient(), stream_.layout).tensor, "input");
  }
  bool first() const { return border_.first(); }

 private:
  double run_first(int64_t pass) {
    stream_ = my_value(context_, input_at(pass), Layout::over(Axis::x));
    stream_.tensor.requires_grad_();
    Half& half = *network_.halves[0];
    border_.send(half.down, half.hidden(stream_), Half::branch(stream_)).backward();
    return 0;
  }
  double run_second(int64_t pass) {
    const int64_t rows = my_rows(context_, input_at(pass)).size(0);
    const Value output = network_.halves[0]->forward(border_.receive({rows, kTime}, kWidth, Layout::over(Axis::x)));
    const at::Tensor sum = output.tensor.square().sum(), all = sum.detach().clone();
    sum.backward();
    for (const Axis axis : {Axis::x, Axis::z, Axis::data}) context_.scheduler().all_reduce(all, axis, "loss").wait();
    return all.item<double>();
  }

  Context context_;
  PipelineBorder border_;
  std::string name_;
  Halves network_;
  Parameters parameters_;
  Value stream_;
};

TEST(PipelineBorder, TrainsANetworkCutInTwoLikeTheWholeOne) {
  for (const GridShape& grid : factorisations(test_environment().ranks() / 2)) {
    Uncut uncut;
    Cut cut(grid);
    for (int64_t number = 0; number < 2; ++number) {
      const double expected = uncut.step(number), loss = cut.step(number);
      if (!cut.first()) {
        EXPECT_NEAR(loss, expected, kRelative * expected) << grid.to_string();
      }
      cut.expect_gradients_of(uncut);
    }
  }
}

// Every rank calls it with the same ranks; nothing is sent.
void expect_stages_refused(const PipelineStages& stages, const std::string& part) {
  Context context(test_environment(), {}, {.dtype = at::kDouble, .job_ranks = {test_environment().rank()}});
  EXPECT_USER_ERROR(PipelineBorder(test_environment(), context, stages), part);
}

TEST(PipelineBorder, RefusesStagesThatDoNotFit) {
  expect_stages_refused({{0, 1}, {2}}, "both need equally many ranks, got 2 and 1");
  expect_stages_refused({{}, {}}, "got 0 and 0");
  expect_stages_refused({{0, 1}, {1, 2}}, "rank 1 is twice in the stages (0 1) and (1 2)");
  expect_stages_refused({{0}, {99}}, "name ranks outside this job of");
  if (test_environment().ranks() >= 4)
    expect_stages_refused({{0, 1}, {2, 3}}, "give one of them as ContextOptions::job_ranks");
}

TEST(PipelineBorder, ContextsOfAnotherTypeAreRefused) {
  const PipelineStages stages = halves();
  Context context(test_environment(), {.x = test_environment().ranks() / 2},
                  {.dtype = in_first(stages) ? at::kDouble : at::kFloat,
                   .job_ranks = in_first(stages) ? stages.first : stages.second});
  EXPECT_USER_ERROR(PipelineBorder(test_environment(), context, stages), "dtype = Float", "has Double");
}

TEST(PipelineBorder, OnlyTheFirstStageSendsAndNotInACheckpoint) {
  Context context = stage_context({.x = test_environment().ranks() / 2}, halves());
  PipelineBorder border(test_environment(), context, halves());
  Halves network(context, {"half"});
  Half& half = *network.halves[0];
  const Parameters parameters = context.materialize(network, 3);
  auto step = context.begin_step();
  set_samples(context, 0);
  const Value stream = my_value(context, input_at(0), Layout::over(Axis::x));
  const Value hidden = half.hidden(stream);
  if (border.first()) {
    EXPECT_USER_ERROR(border.receive({1}, kWidth, Layout::over(Axis::x)), "receive() is for the second");
    const auto block = [&](const std::vector<Value>& inputs) {
      return Value{border.send(half.down, inputs[0]), 1, Layout::replicated()};
    };
    EXPECT_USER_ERROR(activation_checkpoint(context, block, {hidden}), "would run its block twice");
  } else {
    EXPECT_USER_ERROR(border.send(half.down, hidden), "send() is for the first");
    EXPECT_USER_ERROR(border.receive({1}, kWidth, Layout::replicated()), "over x or y; got 'replicated'");
    EXPECT_USER_ERROR(border.receive({1}, kWidth, Layout::over(Axis::x).with_rows({1})), "whole rows arrive",
                      "then redistribute(context, value, layout)");
  }
  step.abandon();
}

TEST(PipelineBorder, AnotherShapeThanSentIsRefused) {
  Context context = stage_context({.y = test_environment().ranks() / 2}, halves());
  PipelineBorder border(test_environment(), context, halves());
  Linear down(context, {.in = kHidden, .out = kWidth});
  const Parameters parameters = context.materialize(*down, 3);
  const at::NoGradGuard no_grad;
  if (border.first())
    border.send(down, my_value(context, whole_tensor(1, {4, kHidden}), Layout::over(Axis::y)));
  else
    EXPECT_USER_ERROR(border.receive({8}, kWidth, Layout::over(Axis::x)), "sends 4 rows of 6 features",
                      "expects 8 of 6");
  test_environment().world().barrier().wait();
}

}  // namespace
}  // namespace axonn
