// Wrong use throws an error that says what to do.
#include "axonn/layers/attention.hpp"
#include "axonn/layers/embedding.hpp"
#include "axonn/layers/linear.hpp"
#include "layers/layer_fixture.hpp"
#include "support/user_error.hpp"

namespace axonn {
namespace {

using namespace test;

class WrongUse : public testing::Test {
 protected:
  Context context = context_on({.data = test_environment().ranks()});
  Linear layer{context, {.in = 4, .out = 6}};
  Parameters parameters = context.materialize(*layer, 1);
  Value input = {at::ones({2, 4}, at::kDouble), 4, Layout::over(Axis::y)};
};

TEST_F(WrongUse, GridThatDoesNotFitTheJob) {
  const int ranks = test_environment().ranks();
  EXPECT_USER_ERROR(context_on({.x = ranks + 1}), "this job has " + std::to_string(ranks));
}

TEST_F(WrongUse, AnotherLayoutThanTheLayerNeeds) {
  EXPECT_USER_ERROR(layer(Value{input.tensor, 4, Layout::over(Axis::x)}),
                    "input is laid out 'over x', this layer needs 'over y'");
}

TEST_F(WrongUse, ForwardOutsideAStep) { EXPECT_USER_ERROR(layer(input), "call context.begin_step() first"); }

TEST_F(WrongUse, StepBeforeTheLastIsFinished) {
  context.begin_step();
  EXPECT_USER_ERROR(context.begin_step(), "the step before has not been finished");
}

TEST_F(WrongUse, ParameterThatGetsNoGradient) {
  auto step = context.begin_step();
  EXPECT_USER_ERROR(step.finish(), "'weight' (never used)");
}

TEST_F(WrongUse, ForwardWithoutBackward) {
  auto step = context.begin_step();
  layer(input);
  EXPECT_USER_ERROR(step.finish(), "'weight' (1 forward uses without a backward)");
}

TEST_F(WrongUse, MoreMicroBatchesThanTheStepWasToldOf) {
  if (context.shape().ranks() == 1) GTEST_SKIP() << "on one rank nothing is summed over the grid";
  context.begin_step();
  layer(input).tensor.sum().backward();
  EXPECT_USER_ERROR(layer(input).tensor.sum().backward(), "tell begin_step({.micro_batches = n})");
}

TEST_F(WrongUse, StepIsOpenAfterAFinishThatFailed) {
  auto step = context.begin_step();
  const Value late = layer(input);
  EXPECT_USER_ERROR(step.finish(), "without a backward");
  late.tensor.sum().backward();
  step.finish();
}

TEST_F(WrongUse, NoStepToGiveUp) {
  auto step = context.begin_step();
  step.abandon();
  EXPECT_USER_ERROR(step.abandon(), "no step has begun");
}

TEST_F(WrongUse, BackwardAfterTheStep) {
  auto step = context.begin_step({.micro_batches = 2});
  layer(input).tensor.sum().backward();
  const Value late = layer(input);
  layer(input).tensor.sum().backward();
  EXPECT_USER_ERROR(step.finish(), "without a backward");
  step.abandon();
  EXPECT_USER_ERROR(late.tensor.sum().backward(), "backward must run inside the step of its forward");
}

TEST_F(WrongUse, MaterializedTwice) {
  EXPECT_USER_ERROR(context.materialize(*layer, 1), "has been materialized before as 'weight'");
}

TEST(WrongUseOfContext, GridsOfTwoRanksDiffer) {
  const int ranks = test_environment().ranks();
  if (ranks == 1) GTEST_SKIP() << "one rank has one grid";
  const GridShape shape = test_environment().rank() == 1 ? GridShape{.z = ranks} : GridShape{.data = ranks};
  EXPECT_USER_ERROR(Context(test_environment(), shape), "rank 1 has grid = 1x1x");
}

TEST_F(WrongUse, PlainTorchParameter) {
  torch::nn::Module net;
  net.register_parameter("gain", at::ones({3}));
  EXPECT_USER_ERROR(context.materialize(net, 1), "'gain' is a plain torch parameter");
}

TEST_F(WrongUse, IdsOutsideTheVocabulary) {
  Embedding table(context, {.vocabulary = 5, .features = 4});
  context.materialize(*table, 1);
  const at::NoGradGuard no_grad;
  EXPECT_USER_ERROR(table(at::full({1, 2}, 5, at::kLong)), "ids must be in [0, 5), got 5 .. 5");
}

TEST_F(WrongUse, HeadsThatTheAxisDoesNotDivide) {
  const Value qkv{at::ones({1, 2, 12}, at::kDouble), 12, Layout::over(Axis::x, {4, 4, 4})};
  EXPECT_USER_ERROR(split_heads(context, qkv, {.heads = 3}),
                    "features must divide by heads, got 4 features and 3 heads");
  EXPECT_USER_ERROR(split_heads(context, qkv, {.heads = 4, .kv_heads = 3}), "kv_heads must divide heads");
}

TEST_F(WrongUse, HeadsThatDoNotBelongTogether) {
  const auto heads = [](int64_t batch, int64_t count) { return at::ones({batch, 2, count, 3}, at::kDouble); };
  const AttentionOptions options = {.heads = 4};
  EXPECT_USER_ERROR(attention(context, {heads(1, 4), heads(1, 2), heads(1, 4)}, options),
                    "keys must be (batch, sequence, 4 heads on this rank");
  EXPECT_USER_ERROR(attention(context, {heads(1, 4), heads(1, 4), heads(2, 4)}, options), "values must be");
}

TEST_F(WrongUse, InputOverwrittenBeforeBackward) {
  context.begin_step();
  const Value result = layer(input);
  input.tensor.add_(1);
  EXPECT_THROW(result.tensor.sum().backward(), c10::Error);
}

}  // namespace
}  // namespace axonn
