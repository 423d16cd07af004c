// Modules made without memory get the values of the plain program, on every grid.
#include <sstream>

#include <torch/nn/init.h>
#include <torch/optim/sgd.h>

#include "axonn/wrap/average.hpp"
#include "axonn/wrap/on_meta.hpp"
#include "axonn/wrap/wrapped_checkpoint.hpp"
#include "support/user_error.hpp"
#include "wrap/parallel/member_networks.hpp"
#include "wrap/parallel/parallel_networks.hpp"
#include "wrap/parallel/parallelized.hpp"
#include "wrap/recipes/recipe_grids.hpp"

namespace axonn {
namespace {

using namespace test;

// Work of constructors beside making layers.
struct Unusual : torch::nn::Module {
  Unusual() : words(torch::nn::EmbeddingOptions(50, 40).padding_idx(3)), up(40, 60), head(60, 4) {
    register_module("words", words);
    register_module("up", up);
    register_module("head", head);
    scale = register_parameter("scale", torch::randn({40, 40}) * 0.02 + torch::eye(40));
    table = register_parameter("table", torch::tensor({1., 2., 3., 4.}, torch::kCPU).to(torch::kFloat), false);
    positions = register_buffer("positions", torch::arange(60).div(60.));
    const torch::NoGradGuard no_grad;
    torch::nn::init::orthogonal_(up->weight, 1.5);
    torch::nn::init::normal_(up->bias);
    torch::manual_seed(99);
    torch::nn::init::uniform_(head->weight, -1, 1);
    head->weight[1].zero_();
    head->weight.data().narrow(0, 2, 1).copy_(torch::ones({1, 60}, torch::kCPU));
    words->weight.mul_(0.5).index_put_({torch::arange(4)}, torch::cat({torch::rand({2, 40}), torch::zeros({2, 40})}));
    to(torch::kDouble);
  }
  at::Tensor forward(const at::Tensor& ids) { return head(up(torch::matmul(words(ids), scale)) * positions) * table; }
  torch::nn::Embedding words;
  torch::nn::Linear up, head;
  at::Tensor scale, table, positions;
};

using Wrap = std::function<WrappedModule(Context&, torch::nn::Module&)>;

WrappedModule sharded(Context& context, torch::nn::Module& net) { return shard(context, net); }
WrappedModule parallelized(Context& context, torch::nn::Module& net) { return parallelize(context, net); }

// The file of the wrapped network, and the next random number.
std::string saved(Context& context, const std::shared_ptr<torch::nn::Module>& net, const Wrap& wrap) {
  const SharedDirectory directory;
  const WrappedModule parameters = wrap(context, *net);
  if (test_environment().rank() == 0) std::filesystem::create_directories(directory.path());
  directory.barrier();
  save_state_dict(parameters, directory / "net.safetensors");
  return bytes_of(directory / "net.safetensors") + std::to_string(torch::rand({1}).item<float>());
}

// Other ranks have other seeds, as the values are those of the first one.
template <typename Net>
void expect_as_plain(const Wrap& wrap, const std::vector<GridShape>& grids) {
  const auto make = [] {
    auto net = std::make_shared<Net>();
    net->to(torch::kDouble);
    return net;
  };
  for (const GridShape& grid : grids) {
    Context context(test_environment(), grid, {.dtype = at::kDouble});
    const uint64_t seed = 5 + static_cast<uint64_t>(context.rank());
    torch::manual_seed(seed);
    const std::string need = saved(context, make(), wrap);
    torch::manual_seed(seed);
    const auto net = on_meta(make);
    ASSERT_TRUE(net->parameters().front().is_meta());
    ASSERT_TRUE(saved(context, net, wrap) == need) << grid.to_string();
  }
}

TEST(OnMeta, ModulesHaveTheValuesOfThePlainProgram) {
  expect_as_plain<Unusual>(sharded, recipe_grids());
  expect_as_plain<Mnist>(sharded, recipe_grids());
  expect_as_plain<LstmModel<torch::nn::LSTM>>(sharded, recipe_grids());
  expect_as_plain<LstmModel<Unit<torch::nn::LSTM>>>(sharded, recipe_grids());
  expect_as_plain<Translator>(sharded, recipe_grids());
  expect_as_plain<Tied>(sharded, recipe_grids());
}

TEST(OnMeta, SoHaveThoseOfParallelize) {
  expect_as_plain<members::Transformer>(parallelized, {parallel_grid()});
  expect_as_plain<members::Images>(parallelized, {parallel_grid()});
  expect_as_plain<Pictures>(parallelized, {parallel_grid()});
  expect_as_plain<Words>(parallelized, {parallel_grid()});
}

struct Two : torch::nn::Module {
  Two() : first(60, 60), second(60, 60) {
    register_module("first", first);
    register_module("second", second);
  }
  at::Tensor forward(const at::Tensor& x) { return second(torch::tanh(first(x))); }
  torch::nn::Linear first, second;
};

std::shared_ptr<Two> two() { return std::make_shared<Two>(); }
Context some_context(at::ScalarType dtype = at::kFloat) {
  return Context(test_environment(), recipe_grids().front(), {.dtype = dtype});
}

TEST(OnMeta, RandomNumbersDrawnInBetweenChangeNothing) {
  Context context = some_context();
  torch::manual_seed(3);
  const std::string need = saved(context, two(), sharded);
  torch::manual_seed(3);
  const auto net = on_meta(two);
  const float between = torch::rand({1}).item<float>();
  torch::manual_seed(3);
  EXPECT_EQ(between, torch::rand({1}).item<float>()) << "on_meta() draws nothing";
  const auto same_weights = [&](const std::string& got) {
    return got.substr(0, got.rfind("0.")) == need.substr(0, need.rfind("0."));
  };
  EXPECT_TRUE(same_weights(saved(context, net, sharded)));
}

TEST(OnMeta, PartsOfOneModuleMayBeWrappedOneByOne) {
  Context context = some_context();
  torch::manual_seed(3);
  const auto plain = two();
  const std::string need = saved(context, plain->second.ptr(), sharded);
  torch::manual_seed(3);
  const auto net = on_meta(two);
  saved(context, net->first.ptr(), sharded);
  torch::manual_seed(4);
  EXPECT_EQ(saved(context, net->second.ptr(), sharded).substr(0, need.rfind("0.")), need.substr(0, need.rfind("0.")));
}

TEST(OnMeta, StepsAreThoseOfThePlainModule) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    std::vector<std::vector<at::Tensor>> got;
    for (const bool meta : {false, true}) {
      Context context = some_context(dtype);
      torch::manual_seed(8);
      const auto net = meta ? on_meta(two) : two();
      const WrappedModule parameters = shard(context, *net);
      torch::optim::SGD optimizer(parameters.local(), torch::optim::SGDOptions(0.1));
      for (int step = 0; step < 2; ++step) {
        auto open = context.begin_step();
        net->forward(torch::ones({2, 60}, dtype)).pow(2).sum().backward();
        open.finish();
        optimizer.step();
      }
      auto& weights = got.emplace_back();
      for (const at::Tensor& each : parameters.local()) weights.push_back(each.detach().clone());
    }
    for (size_t i = 0; i < got[0].size(); ++i) EXPECT_TRUE(got[0][i].equal(got[1][i])) << i;
  }
}

TEST(OnMeta, LoadedParametersAreReadAndBuffersComputed) {
  const SharedDirectory directory;
  Context context = some_context(at::kDouble);
  const auto file = directory / "net.safetensors";
  torch::manual_seed(1);
  const auto plain = std::make_shared<Unusual>();
  const WrappedModule source = shard(context, *plain);
  if (test_environment().rank() == 0) std::filesystem::create_directories(directory.path());
  directory.barrier();
  save_state_dict(source, file);

  const auto net = on_meta([] { return std::make_shared<Unusual>(); }, MetaValues::loaded);
  torch::manual_seed(2);
  const float next = torch::rand({1}).item<float>();
  torch::manual_seed(2);
  const WrappedModule parameters = shard(context, *net);
  EXPECT_EQ(torch::rand({1}).item<float>(), next) << "nothing is drawn";
  EXPECT_TRUE(net->positions.equal(plain->positions));
  const char* const text = "load_state_dict() or load_checkpoint() first";
  EXPECT_USER_ERROR(context.begin_step(), "'head.bias' has no values", text);
  EXPECT_USER_ERROR(parameters.gathered(), text);
  EXPECT_USER_ERROR(save_state_dict(parameters, file), text);
  EXPECT_USER_ERROR(average(parameters, 0.9), text);
  const auto without_scale = [](const std::string& name) { return name == "scale" ? "" : name; };
  load_state_dict(parameters, file, {.strict = false, .rename = without_scale});
  EXPECT_USER_ERROR(context.begin_step(), "'scale' has no values", text);
  load_state_dict(parameters, file);
  for (size_t i = 0; i < parameters.local().size(); ++i)
    EXPECT_TRUE(parameters.local()[i].equal(source.local()[i])) << parameters.names()[i];
  const auto whole = parameters.gathered();
  EXPECT_TRUE(net->table.equal(torch::arange(1, 5).to(torch::kDouble)));
}

template <typename Constructor>
std::shared_ptr<torch::nn::Module> constructed(Constructor constructor) {
  return on_meta([&] {
    auto net = std::make_shared<Two>();
    constructor(*net);
    return net;
  });
}

TEST(OnMeta, ConstructorsThatReadValuesAreNamed) {
  const char* const text = "of a constructor reads values that are not there";
  const at::NoGradGuard no_grad;
  EXPECT_USER_ERROR(constructed([](Two& net) { net.first->weight.mul_(net.second->weight.norm().item<double>()); }),
                    "item", text);
  EXPECT_USER_ERROR(constructed([](Two& net) { (void)net.first->weight.equal(net.second->weight); }), text);
  EXPECT_USER_ERROR(constructed([](Two& net) { torch::empty({60, 60}, torch::kCPU).copy_(net.first->weight); }), text);
  EXPECT_USER_ERROR(constructed([](Two&) { torch::randn({3}, torch::kCPU); }), "randn", "draws random numbers now");
  EXPECT_THROW(constructed([](Two& net) { *net.first->weight.data_ptr<float>() = 1; }), c10::Error);
  EXPECT_THROW(constructed([](Two&) { at::tensor(std::vector<float>{1, 2}); }), c10::Error);
  EXPECT_FALSE(torch::rand({2}).is_meta()) << "an error ends it";
}

TEST(OnMeta, WhatChangesAfterwardsIsRefused) {
  Context context = some_context();
  const auto refused = [&](const std::shared_ptr<torch::nn::Module>& net, const std::string& name) {
    EXPECT_USER_ERROR(shard(context, *net), name, "is not as axonn::on_meta() left it", "function that on_meta() gets");
  };
  auto net = on_meta(two);
  torch::nn::init::zeros_(net->first->weight);
  refused(net, "'first.weight'");
  net = on_meta(two);
  net->to(torch::kDouble);
  refused(net, "'first.weight'");
  net = std::make_shared<Two>();
  net->register_parameter("other", torch::empty({60, 60}, torch::kMeta));
  refused(net, "'other'");
  net = std::make_shared<Two>();
  net->register_buffer("other", torch::empty({60, 60}, torch::kMeta));
  refused(net, "'other'");

  at::Tensor given = torch::ones({60, 60});
  net = on_meta([&] {
    auto made = two();
    const at::NoGradGuard no_grad;
    made->first->weight.copy_(given);
    return made;
  });
  given.mul_(2);
  EXPECT_USER_ERROR(shard(context, *net), "'aten::copy_' of a constructor reads a tensor that has changed since");
}

TEST(OnMeta, AnotherOrderOnARankIsNamed) {
  if (test_environment().ranks() == 1) GTEST_SKIP() << "one rank has one order";
  Context context = some_context();
  struct Either : torch::nn::Module {
    explicit Either(bool turned) {
      torch::nn::Linear one(60, 60), other(60, 60);
      register_module("first", turned ? other : one);
      register_module("second", turned ? one : other);
    }
  };
  const auto net = on_meta([&] { return std::make_shared<Either>(context.rank() == 1); });
  EXPECT_USER_ERROR(shard(context, *net), "rank 1 has 'second.weight'", "where rank 0 has 'first.weight'");
}

}  // namespace
}  // namespace axonn
