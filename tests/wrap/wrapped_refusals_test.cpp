// Refusals of a wrapped module, and their words.
#include <sstream>

#include <ATen/ops/complex.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>

#include "axonn/layers/linear.hpp"
#include "support/user_error.hpp"
#include "wrap/wrapped.hpp"

namespace axonn {
namespace {

using namespace test;

Context make_context(at::ScalarType dtype = at::kDouble) {
  return Context(test_environment(), wrapped_grids().front(), {.dtype = dtype});
}

struct One : torch::nn::Module {
  explicit One(at::Tensor tensor) { it = register_parameter("it", std::move(tensor), /*requires_grad=*/false); }
  at::Tensor it;
};

#define EXPECT_REFUSED(tensor, ...)                                 \
  do {                                                              \
    Context context = make_context();                               \
    One module(tensor);                                             \
    EXPECT_USER_ERROR(shard(context, module), "'it'", __VA_ARGS__); \
  } while (false)

TEST(WrappedRefusals, ParametersThatCannotBeSharded) {
  const at::Tensor whole = torch::zeros({20, 4}, torch::kDouble);
  EXPECT_REFUSED(whole.narrow(0, 0, 10).detach(), "a view", "clone()");
  EXPECT_REFUSED(torch::zeros({4, 20}, torch::kDouble).t().detach(), "not contiguous", "contiguous()");
  EXPECT_REFUSED(at::complex(whole, whole), "complex", "two parameters");
  EXPECT_REFUSED(whole.to_sparse(), "sparse");
  EXPECT_REFUSED(torch::zeros({4}), "Float", "Double", "to()");
}

struct Net : torch::nn::Module {
  Net()
      : first(torch::nn::LinearOptions(40, 40)),
        second(40, 40),
        tail(torch::nn::Sequential({{"a", torch::nn::Linear(40, 40)}, {"b", torch::nn::ReLU()}})),
        list(torch::nn::ModuleList(torch::nn::Linear(40, 40))) {
    register_module("first", first);
    register_module("second", second);
    register_module("tail", tail);
    register_module("list", list);
  }
  at::Tensor forward(const at::Tensor& x) {
    return list[0]->as<torch::nn::Linear>()->forward(tail->forward(second(first(x))));
  }
  static at::Tensor input() { return torch::ones({kRows, 40}, torch::kDouble); }
  Unit<torch::nn::Linear> first;
  torch::nn::Linear second;
  torch::nn::Sequential tail;
  torch::nn::ModuleList list;
};

TEST(WrappedRefusals, ModulesThatCannotBeSharded) {
  Context context = make_context();
  const auto stale = network<Net>();
  stale->second->weight = stale->first->weight;
  EXPECT_USER_ERROR(shard(context, *stale), "'second.weight'", "not the tensor that its module reads");
  const auto shared = network<Net>();
  shared->second->weight.set_data(shared->first->weight.detach());
  EXPECT_USER_ERROR(shard(context, *shared), "'second.weight'", "shares memory with 'first.weight'");
  const auto frozen = network<Net>();
  for (at::Tensor& each : frozen->parameters()) each.requires_grad_(false);
  EXPECT_USER_ERROR(shard(context, *frozen), "no parameter", "requires_grad_()");
  const auto net = network<Net>();
  EXPECT_USER_ERROR(shard(context, *net, {.units = {"tial.*"}}), "'tial.*'", "did you mean 'tail");
  EXPECT_USER_ERROR(shard(context, *net, {.units = {"list.*"}}), "'list.0'", "in no Sequential", "axonn::Unit");
  struct Ours : torch::nn::Module {
    explicit Ours(Context& of) : layer(of, LinearOptions{.in = 4, .out = 4}) { register_module("layer", layer); }
    Linear layer;
  } ours(context);
  EXPECT_USER_ERROR(shard(context, ours), "'layer'", "a layer of axonn");
  const auto parameters = shard(context, *net);
  EXPECT_USER_ERROR(shard(context, *net), "'first.weight'", "wrapped before");
  Context plan = Context::plan({.data = 2});
  EXPECT_USER_ERROR(shard(plan, *frozen), "Context::plan()");
  const int ranks = test_environment().ranks();
  if (ranks == 1) return;
  Context divided(test_environment(), {.z = ranks}, {.dtype = at::kDouble, .forward = {.context = ranks}});
  EXPECT_USER_ERROR(shard(divided, *frozen), "context divides sequences", "choose 1, got " + std::to_string(ranks));
  torch::nn::Linear different(40, 40 + test_environment().rank());
  different->to(torch::kDouble);
  EXPECT_USER_ERROR(shard(context, *different), "rank 1 has 'weight' [41, 40]", "rank 0 has 'weight' [40, 40]");
}

template <typename Action>
std::string torch_error(Action action) {
  try {
    action();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no c10::Error";
}

TEST(WrappedRefusals, WhoeverReadsAnAbsentParameter) {
  Context context = make_context();
  const auto net = network<Net>();
  const auto parameters = shard(context, *net);
  if (context.shape().z == 1) return;  // every rank has them whole
  const auto expect_named = [&](const std::string& got) {
    EXPECT_NE(got.find("weight' is sharded by axonn::shard()"), std::string::npos) << got;
    EXPECT_NE(got.find("context.begin_step()"), std::string::npos) << got;
  };
  const at::NoGradGuard no_grad;
  expect_named(torch_error([&] { net->second(Net::input()); }));
  expect_named(torch_error([&] { net->second->clone(); }));
  expect_named(torch_error([&] {
    std::ostringstream out;
    torch::save(net->second, out);
  }));
  expect_named(torch_error([&] { net->second->to(torch::kFloat); }));
}

TEST(WrappedRefusals, StepsThatCannotBeRight) {
  Context context = make_context();
  const auto net = network<Net>();
  const auto parameters = shard(context, *net, {.units = {"tail.*"}});
  EXPECT_USER_ERROR(net->first(Net::input()), "unit 'first'", "outside a step", "NoGradGuard");
  {
    const auto whole = parameters.gathered();
    EXPECT_USER_ERROR(context.begin_step(), "parameters.gathered() still lives");
    EXPECT_USER_ERROR(net->second(Net::input()).sum().backward(), "'second.", "came outside a step");
    net->second->zero_grad();
  }
  EXPECT_USER_ERROR(clip_grad_norm_(parameters, 1), "'first.weight'", "no gradient to clip");
  auto step = context.begin_step();
  EXPECT_USER_ERROR(context.begin_step(), "has not been finished");
  net->second(net->first(Net::input())).sum().backward();
  EXPECT_USER_ERROR(step.finish(), "'tail.a.weight'", "no gradient in this step", "Unused::zero");
  step.abandon();

  auto twice = context.begin_step();
  EXPECT_USER_ERROR(torch::autograd::backward({my_loss(*net, context, 0)}, {}, {}, /*create_graph=*/true), "unit '",
                    "differentiated twice");
  twice.abandon();
  for (at::Tensor& each : net->parameters()) each.mutable_grad().reset();

  auto earlier = context.begin_step();
  const at::Tensor of_unit = net->first(Net::input()).sum(), of_root = net->second(net->first(Net::input())).sum();
  earlier.abandon();
  auto later = context.begin_step();
  EXPECT_USER_ERROR(of_unit.backward(), "forward of an earlier step");
  EXPECT_NE(torch_error([&] { of_root.backward(); }).find("modified by an inplace operation"), std::string::npos);
  later.abandon();

  net->second->weight.requires_grad_(false);
  EXPECT_USER_ERROR(context.begin_step(), "'second.weight'", "requires no gradient any more");
  net->second->weight.requires_grad_(true);
  net->second->bias.set_data(torch::zeros({40}, torch::kDouble));
  EXPECT_USER_ERROR(context.begin_step(), "'second.bias'", "other memory", "set_data()");
}

struct ReturnsItsWeight : torch::nn::Module {
  ReturnsItsWeight() { weight = register_parameter("weight", torch::ones({64, 64}, torch::kDouble)); }
  at::Tensor forward(const at::Tensor&) { return weight.t(); }
  at::Tensor weight;
};

TEST(WrappedRefusals, UnitsThatReturnTheirParameters) {
  Context context = make_context();
  Unit<ReturnsItsWeight> view{std::make_shared<UnitImpl<ReturnsItsWeight>>()};
  const auto of_view = shard(context, *view);
  auto step = context.begin_step();
  EXPECT_USER_ERROR(view(at::Tensor()), "returns a view of its parameter", "'weight'", "clone()");
  step.abandon();
}

TEST(WrappedRefusals, BuffersThatDifferBetweenRanks) {
  Context context = make_context();
  torch::nn::BatchNorm2d norm(3);
  norm->to(torch::kDouble);
  const auto of_norm = shard(context, *norm);
  auto changes = context.begin_step();
  norm(torch::randn({4, 3, 2, 2}, torch::kDouble)).sum().backward();
  EXPECT_USER_ERROR(changes.finish(), "buffer '", "has changed", "Buffers::first_rank");
  changes.abandon();
}

TEST(WrappedRefusals, StatisticsOfAnotherTypeThanTheWeights) {
  Context context = make_context(at::kBFloat16);
  torch::nn::Sequential norms(torch::nn::BatchNorm2d(3));
  EXPECT_USER_ERROR(shard(context, *norms), "'0.running_mean' is Float", "BFloat16", "axonn::nn::BatchNorm1d or 2d");
  torch::nn::Sequential fine(torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(3).affine(false)),
                             torch::nn::Conv2d(3, 3, 1));
  const auto of_fine = shard(context, *fine, {.buffers = Buffers::first_rank});
  auto step = context.begin_step();
  fine->forward(torch::randn({4, 3, 2, 2}).to(at::kBFloat16)).sum().backward();
  step.finish();
}

TEST(WrappedRefusals, BatchNormsOfAnotherTypeThanTheContext) {
  Context context = make_context();
  torch::nn::Sequential norms(torch::nn::BatchNorm2d(3));
  EXPECT_USER_ERROR(shard(context, *norms), "parameter '0.weight'", "Float", "Double", "to()");
}

TEST(WrappedRefusals, WeightsThatForwardChanges) {
  Context context = make_context();
  torch::nn::Sequential words(torch::nn::Embedding(torch::nn::EmbeddingOptions(61, 40).max_norm(1)));
  torch::nn::EmbeddingBag bag(torch::nn::EmbeddingBagOptions(61, 40).max_norm(1));
  words->to(torch::kDouble);
  bag->to(torch::kDouble);
  EXPECT_USER_ERROR(shard(context, *words), "'0.weight' is changed in forward", "max_norm");
  EXPECT_USER_ERROR(shard(context, *bag), "'weight' is changed in forward", "max_norm");
}

TEST(WrappedRefusals, SparseGradients) {
  Context context = make_context();
  torch::nn::Embedding words(torch::nn::EmbeddingOptions(61, 40).sparse(true));
  words->to(torch::kDouble);
  const auto of_words = shard(context, *words);
  auto sparse = context.begin_step();
  EXPECT_USER_ERROR(words(torch::arange(5)).sum().backward(), "'weight'", "sparse", "sparse(false)");
  sparse.abandon();
}

TEST(WrappedRefusals, TrainingWithoutTheResult) {
  Context context = make_context();
  torch::nn::Linear net(4, 4);  // small, so whole on every rank
  net->to(torch::kDouble);
  {
    const auto gone = shard(context, *net);
  }
  EXPECT_USER_ERROR(net(torch::ones({1, 4}, torch::kDouble)).sum().backward(), "result of shard() has gone");
}

}  // namespace
}  // namespace axonn
