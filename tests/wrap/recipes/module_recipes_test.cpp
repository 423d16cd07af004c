// Habits of LibTorch's programs with modules: packed sequences, walks over them, and two that are
// trained in turns.
#include <functional>

#include <torch/nn/modules/activation.h>
#include <torch/nn/utils/rnn.h>
#include <torch/optim/sgd.h>

#include "axonn/layers/compare/differences.hpp"
#include "axonn/optim/make_optimizer.hpp"
#include "axonn/wrap/frozen_guard.hpp"
#include "axonn/wrap/parallelize.hpp"
#include "support/user_error.hpp"
#include "wrap/recipes/recipe_grids.hpp"
#include "wrap/wrapped.hpp"
#include "wrap/wrapped_network.hpp"

namespace axonn {
namespace {

using namespace test;
namespace rnn = torch::nn::utils::rnn;

at::Tensor gradient(const at::Tensor& each) { return each.grad(); }
Context context_of(const GridShape& grid) { return Context(test_environment(), grid, {.dtype = at::kDouble}); }

const at::Tensor& last_state(const at::Tensor& state) { return state; }
const at::Tensor& last_state(const std::tuple<at::Tensor, at::Tensor>& state) { return std::get<0>(state); }

// `Recurrent` is an LSTM, GRU or RNN of LibTorch, or a unit of it.
template <typename Recurrent, typename Options>
struct Packed : torch::nn::Module {
  Packed() : words(61, 24), recurrent(Options(24, 40).num_layers(2).bidirectional(true)), scores(80, 7) {
    register_module("words", words);
    register_module("recurrent", recurrent);
    register_module("scores", scores);
  }
  at::Tensor forward(const rnn::PackedSequence& ids) {
    const rnn::PackedSequence sequences(words(ids.data()), ids.batch_sizes(), ids.sorted_indices(),
                                        ids.unsorted_indices());
    const auto [output, state] = recurrent->forward_with_packed_input(sequences);
    return scores(output.data()).pow(2).sum() + last_state(state).pow(3).sum();
  }
  torch::nn::Embedding words;
  Recurrent recurrent;
  torch::nn::Linear scores;
};

// A module of one's own that takes and gives packed sequences.
struct EncoderImpl : torch::nn::Module {
  EncoderImpl() : recurrent(torch::nn::GRUOptions(24, 40)) { register_module("recurrent", recurrent); }
  rnn::PackedSequence forward(const rnn::PackedSequence& x) {
    return std::get<0>(recurrent->forward_with_packed_input(x));
  }
  torch::nn::GRU recurrent;
};
TORCH_MODULE(Encoder);

template <typename Inner>
struct Encoded : torch::nn::Module {
  Encoded() : words(61, 24) {
    register_module("words", words);
    register_module("encoder", encoder);
  }
  at::Tensor forward(const rnn::PackedSequence& ids) {
    return encoder(
               rnn::PackedSequence(words(ids.data()), ids.batch_sizes(), ids.sorted_indices(), ids.unsorted_indices()))
        .data()
        .pow(2)
        .sum();
  }
  torch::nn::Embedding words;
  Inner encoder;
};

template <typename Net>
at::Tensor packed_loss(Net& net, int64_t first, int64_t rows) {
  torch::manual_seed(4);
  const at::Tensor ids = torch::randint(61, {kRows, 6}), lengths = torch::arange(kRows).remainder(5) + 2;
  return net.forward(rnn::pack_padded_sequence(ids.narrow(0, first, rows), lengths.narrow(0, first, rows),
                                               /*batch_first=*/true, /*enforce_sorted=*/false));
}

template <typename Plain, typename Wrapped>
void expect_packed() {
  const auto plain = network<Plain>();
  packed_loss(*plain, 0, kRows).backward();
  for (const GridShape& grid : recipe_grids()) {
    Context context = context_of(grid);
    const auto net = network<Wrapped>();
    const WrappedModule parameters = shard(context, *net);
    const RowShare share = context.row_share();
    const int64_t rows = kRows / share.groups;
    for (int step = 0; step < 2; ++step) {
      auto open = context.begin_step();
      const at::Tensor loss = packed_loss(*net, share.mine * rows, rows);
      EXPECT_EQ(readable(net->parameters()[2]), grid.z == 1) << "whole only while it computes";
      loss.backward();
      open.finish();
      expect_local(parameters, of_plain(*plain, gradient), true, 1e-12, grid.to_string());
    }
  }
}

TEST(PackedUnits, LstmGruAndRnn) {
  using namespace torch::nn;
  expect_packed<Packed<LSTM, LSTMOptions>, Packed<Unit<LSTM>, LSTMOptions>>();
  expect_packed<Packed<GRU, GRUOptions>, Packed<Unit<GRU>, GRUOptions>>();
  expect_packed<Packed<RNN, RNNOptions>, Packed<Unit<RNN>, RNNOptions>>();
}

TEST(PackedUnits, ModulesThatTakeAndGiveThem) { expect_packed<Encoded<Encoder>, Encoded<Unit<Encoder>>>(); }

template <typename Module>
int64_t count(torch::nn::Module& net) {
  int64_t found = 0;
  net.apply([&](torch::nn::Module& module) { found += module.as<Module>() != nullptr; });
  return found;
}

TEST(FoundModules, UnitsStayTheModulesThatTheyWere) {
  const auto plain = network<ResNet>();
  for (const GridShape& grid : recipe_grids()) {
    Context context = context_of(grid);
    const auto net = network<ResNet>();
    const auto before = net->modules();
    const WrappedModule parameters = shard(context, *net, {.units = {"blocks.*"}});
    const auto after = net->modules();
    ASSERT_EQ(after.size(), before.size());
    for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(after[i], before[i]) << after[i]->name();
    EXPECT_EQ(count<torch::nn::Conv2d>(*net), 10);
    ASSERT_NE(net->blocks[1]->as<ResNet::Block>(), nullptr);
    EXPECT_EQ(net->blocks[1]->as<ResNet::Block>()->second->options.out_channels(), 20);
    EXPECT_THROW(net->blocks->at<ResNet::Block>(1), c10::Error);
    EXPECT_USER_ERROR(net->blocks->forward(1, 2), "takes 2 arguments", "one tensor", "axonn::Unit");
    EXPECT_USER_ERROR(net->blocks->clone(), "cannot be cloned", "before shard()");

    // Such a loop now reaches the units: forward is that of the changed modules.
    for (auto* of : {&*plain, &*net})
      for (const auto& module : of->modules())
        if (auto* norm = module->as<torch::nn::BatchNorm2d>()) norm->options.eps(0.5);
    plain->zero_grad();
    loss(*plain, 0, 0, kRows).backward();
    auto open = context.begin_step();
    my_loss(*net, context, 0).backward();
    open.finish();
    expect_local(parameters, of_plain(*plain, gradient), true, 1e-12, grid.to_string());
  }
}

TEST(FoundModules, ParallelizedSequentialsKeepWhatTheyDoNotDivide) {
  Context context = context_of(recipe_grids().back());
  using namespace torch::nn;
  Sequential net(Linear(40, 64), Softmax(1), Linear(64, 40), PReLU());
  net->to(torch::kDouble);
  const WrappedModule parameters = parallelize(context, *net, {.units = {"3"}});
  ASSERT_NE(net[1]->as<Softmax>(), nullptr);
  ASSERT_NE(net[3]->as<PReLU>(), nullptr);
  EXPECT_EQ(net->named_parameters().keys().back(), "3.weight");
  net->eval();
  EXPECT_FALSE(net[1]->is_training());
  auto open = context.begin_step();
  net->forward(torch::randn({kRows, 40}, torch::kDouble)).sum().backward();
  open.finish();
}

struct Generator : torch::nn::Module {
  Generator() : body(torch::nn::Linear(8, 150), torch::nn::Tanh(), torch::nn::Linear(150, 40)) {
    register_module("body", body);
  }
  at::Tensor forward(const at::Tensor& noise) { return body->forward(noise); }
  torch::nn::Sequential body;
};

struct Judge : torch::nn::Module {
  Judge() : body(torch::nn::Linear(40, 50), torch::nn::Tanh(), torch::nn::Linear(50, 6)) {
    register_module("body", body);
  }
  at::Tensor forward(const at::Tensor& x) { return body->forward(x); }
  torch::nn::Sequential body;
};

at::Tensor drawn(int64_t number, int64_t width, int64_t first, int64_t rows) {
  torch::manual_seed(static_cast<uint64_t>(number));
  return torch::randn({kRows, width}, torch::kDouble).narrow(0, first, rows);
}

// Rounds of both players; `turn` makes a step in which the other one is frozen.
void play(Generator& generator, Judge& judge, int64_t first, int64_t rows,
          const std::function<void(bool judges, int losses, const std::function<void()>& backward)>& turn) {
  for (int64_t round = 0; round < 3; ++round) {
    const at::Tensor noise = drawn(10 + round, 8, first, rows);
    turn(true, 2, [&] {
      (judge.forward(drawn(20 + round, 40, first, rows)) - 1).pow(2).sum().backward();
      judge.forward(generator.forward(noise).detach()).pow(2).sum().backward();
    });
    turn(false, 1, [&] { (judge.forward(generator.forward(noise)) - 1).pow(2).sum().backward(); });
  }
}

// Also of a module that is divided over X and Y.
void expect_weights(const Context& context, const WrappedModule& parameters, const torch::nn::Module& plain,
                    const std::string& what) {
  const auto& slots = parameters.parameters().arena().slots();
  for (size_t i = 0; i < slots.size(); ++i) {
    const at::Tensor whole = plain.named_parameters()[slots[i].name].detach(), got = parameters.local()[i].detach();
    const at::Tensor need =
        stored_part(parameters.network().found().trained[i].stored(whole), slots[i], context.shape(), context.at());
    if (got.numel() == 0) continue;
    EXPECT_LE((got - need).abs().max().item<double>() / whole.abs().max().item<double>(), 1e-12)
        << what << ' ' << slots[i].name << ' ' << context.shape().to_string();
  }
}

template <typename Wrap>
void expect_game(const GridShape& grid, const OverlapPolicy& policy, const Wrap& wrap) {
  const auto plain_generator = network<Generator>(1), generator = network<Generator>(1);
  const auto plain_judge = network<Judge>(2), judge = network<Judge>(2);
  torch::optim::SGD of_plain_generator(plain_generator->parameters(), 1e-3),
      of_plain_judge(plain_judge->parameters(), 1e-3);
  play(*plain_generator, *plain_judge, 0, kRows, [&](bool judges, int, const auto& backward) {
    plain_generator->zero_grad();
    plain_judge->zero_grad();
    backward();
    (judges ? of_plain_judge : of_plain_generator).step();
  });
  Context context(test_environment(), grid, {.dtype = at::kDouble, .overlap = policy});
  const WrappedModule generators = wrap(context, *generator), judges_ = wrap(context, *judge);
  torch::optim::SGD of_generator(generators.local(), 1e-3), of_judge(judges_.local(), 1e-3);
  const RowShare share = context.row_share();
  const int64_t rows = kRows / share.groups;
  play(*generator, *judge, share.mine * rows, rows, [&](bool judges, int losses, const auto& backward) {
    const FrozenGuard frozen(judges ? generators : judges_);
    auto open = context.begin_step({.micro_batches = losses});
    backward();
    open.finish();
    for (const at::Tensor& each : (judges ? generators : judges_).local()) EXPECT_FALSE(each.grad().defined());
    of_generator.step();  // without gradients it changes nothing
    of_judge.step();
  });
  expect_weights(context, generators, *plain_generator, "generator");
  expect_weights(context, judges_, *plain_judge, "judge");
}

TEST(FrozenGuard, TwoNetworksOfOneContextTakeTurns) {
  for (const GridShape& grid : recipe_grids())
    for (const OverlapPolicy& policy : {OverlapPolicy{}, OverlapPolicy::none()}) {
      const auto sharded = [](const ShardOptions& options) {
        return [options](Context& context, torch::nn::Module& net) { return shard(context, net, options); };
      };
      expect_game(grid, policy, sharded({}));
      expect_game(grid, policy, sharded({.units = {"body.*"}}));
      expect_game(grid, policy, sharded({.units = {"body.*"}, .unused = Unused::zero}));
      if (grid.x * grid.y > 1)
        expect_game(grid, policy, [](Context& context, torch::nn::Module& net) { return parallelize(context, net); });
    }
}

TEST(FrozenGuard, LastsAsLongAsItLives) {
  Context context = context_of(recipe_grids().front());
  const auto generator = network<Generator>();
  const auto judge = network<Judge>();
  const WrappedModule generators = shard(context, *generator), judges = shard(context, *judge);
  const auto optimizer = make_optimizer(context, judges.parameters(), {.kind = OptimizerKind::sgd});
  const auto loss = [&] { return judge->forward(generator->forward(drawn(1, 8, 0, 2))).sum(); };
  const at::Tensor before = judges.local()[0].detach().clone();
  {
    const FrozenGuard outer(judges), inner(judges);
    auto given_up = context.begin_step();
    EXPECT_USER_ERROR(FrozenGuard(generators), "only between steps", "begin_step()");
    loss().backward();
    given_up.abandon();
    auto open = context.begin_step();
    loss().backward();
    open.finish();
    EXPECT_TRUE(generators.local()[0].grad().defined());
    EXPECT_USER_ERROR(optimizer->step(), "gradient");
    EXPECT_TRUE(judges.local()[0].equal(before));
  }
  auto open = context.begin_step();
  judge->forward(drawn(2, 40, 0, 2)).sum().backward();
  EXPECT_USER_ERROR(open.finish(), "'body.0.weight' got no gradient", "FrozenGuard");
  open.abandon();
  auto both = context.begin_step();
  loss().backward();
  both.finish();
  EXPECT_TRUE(judges.local()[0].grad().defined());
}

}  // namespace
}  // namespace axonn
