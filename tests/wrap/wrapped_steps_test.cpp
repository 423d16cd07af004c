// Events in a step of a wrapped module, beside the plain ones.
#include <set>
#include <vector>

#include <torch/optim/sgd.h>

#include "axonn/layers/activation_checkpoint.hpp"
#include "axonn/optim/make_optimizer.hpp"
#include "support/user_error.hpp"
#include "wrap/wrapped.hpp"

namespace axonn {
namespace {

using namespace test;

using UnitLstm = LstmModel<Unit<torch::nn::LSTM>>;
const std::vector<std::string> kBlocks = {"blocks.*"};

GridShape grid_of_job() { return wrapped_grids().front(); }
Context make_context(OverlapPolicy policy = {}) {
  return Context(test_environment(), grid_of_job(), {.dtype = at::kDouble, .overlap = policy});
}

// Local weights after some steps of AdamW.
template <typename Net>
std::vector<at::Tensor> trained(const OverlapPolicy& policy, const std::vector<std::string>& units) {
  Context context = make_context(policy);
  const auto net = network<Net>();
  const WrappedModule parameters = shard(context, *net, {.units = units});
  torch::optim::AdamW optimizer(parameters.local(), adamw());
  for (int step = 0; step < 3; ++step) {
    auto open = context.begin_step({.micro_batches = 2});
    my_loss(*net, context, step).backward();
    my_loss(*net, context, step + 10).backward();
    open.finish();
    optimizer.step();
  }
  return parameters.local();
}

template <typename Net>
void expect_same_bits(const std::vector<std::string>& units) {
  const auto need = trained<Net>(OverlapPolicy::none(), units);
  for (unsigned bits = 0; bits < kSwitchCombinations<OverlapSwitches>; ++bits) {
    const OverlapPolicy policy{
        .switches = switches_of<OverlapSwitches>(bits), .bucket_bytes = 16 << 10, .cache_budget = {.bytes = 24 << 10}};
    const auto got = trained<Net>(policy, units);
    for (size_t i = 0; i < need.size(); ++i) ASSERT_TRUE(got[i].equal(need[i])) << to_string(policy.switches);
  }
}

TEST(WrappedSteps, EveryPolicyHasTheSameBits) {
  expect_same_bits<ResNet>(kBlocks);
  expect_same_bits<UnitLstm>({});
}

// Elements of the network's parameters, and the units that have a sharded one.
struct Sizes {
  explicit Sizes(const Parameters& parameters) {
    for (const ShardedParameter& each : parameters.list()) {
      ++tensors;
      (each.spec().over_z ? sharded : small) += each.spec().global_numel();
      if (!each.spec().over_z) continue;
      const bool in_unit = each.name().starts_with("blocks.");
      units.insert(in_unit ? each.name().substr(0, each.name().find('.', 7)) : "the module");
      (in_unit ? in_units : in_root) += each.spec().global_numel();
    }
    root = static_cast<int64_t>(units.count("the module"));
    blocks = static_cast<int64_t>(units.size()) - root;
  }
  int64_t tensors = 0, sharded = 0, small = 0, in_units = 0, in_root = 0, root = 0, blocks = 0;
  std::set<std::string> units;
};

TEST(WrappedSteps, MovesAndHoldsWhatIsNeeded) {
  Context context = make_context(OverlapPolicy::none());
  const auto net = network<ResNet>();
  const WrappedModule parameters = shard(context, *net, {.units = kBlocks});
  const Sizes sizes(parameters.parameters());
  ASSERT_EQ(sizes.blocks, 3);
  const Arena& arena = parameters.parameters().arena();
  const int64_t z = context.shape().z;
  const int64_t most = sizes.sharded / z + sizes.small + kRangeAlignment * sizes.tensors + BlockOwners::kBlock;
  EXPECT_LE(arena.weights().numel(), most);
  EXPECT_LE(arena.gradients().numel(), most);
  EXPECT_TRUE(arena.master().is_same(arena.weights()));
  EXPECT_FALSE(net->blocks->parameters().front().grad().defined());

  torch::optim::AdamW optimizer(parameters.local(), adamw());
  int64_t allocations = 0;
  for (int step = 0; step < 4; ++step) {
    auto open = context.begin_step();
    my_loss(*net, context, step).backward();
    open.finish();
    optimizer.step();
    const TrafficSums& sums = context.scheduler().traffic().sums();
    const auto& gathers = sums[static_cast<size_t>(Traffic::all_gather)];
    const auto& scatters = sums[static_cast<size_t>(Traffic::reduce_scatter)];
    // The root once, units for forward and for backward; a little more than their elements.
    const auto expect_bytes = [&](int64_t bytes, int64_t elements) {
      EXPECT_GE(bytes, z > 1 ? 8 * elements : 0);
      EXPECT_LE(bytes, z > 1 ? 8 * (elements + 2 * z * kRangeAlignment * sizes.tensors) : 0);
    };
    EXPECT_EQ(gathers.collectives, z > 1 ? sizes.root + 2 * sizes.blocks : 0);
    expect_bytes(gathers.bytes, sizes.in_root + 2 * sizes.in_units);
    EXPECT_EQ(scatters.collectives, z > 1 ? sizes.root + sizes.blocks : 0);
    expect_bytes(scatters.bytes, sizes.sharded);
    if (step > 0) {
      EXPECT_EQ(context.scheduler().pool().allocations(), allocations) << step;
    }
    allocations = context.scheduler().pool().allocations();
  }
  int64_t state = 0;
  for (const auto& [parameter, of] : optimizer.state()) {
    const auto& kept = dynamic_cast<const torch::optim::AdamWParamState&>(*of);
    state += kept.exp_avg().numel() + kept.exp_avg_sq().numel();
  }
  EXPECT_GT(state, 0);
  EXPECT_LE(state, 2 * most);
}

TEST(WrappedSteps, UnitsAreWholeOnlyWhileTheyCompute) {
  Context context = make_context(OverlapPolicy::none());
  const auto net = network<ResNet>();
  const WrappedModule parameters = shard(context, *net, {.units = kBlocks});
  const auto expect_absent = [&] {
    for (const std::string name : {"blocks.a.first.weight", "blocks.c.second.weight"})
      EXPECT_EQ(readable(net->named_parameters()[name]), context.shape().z == 1) << name;
  };
  expect_absent();
  auto open = context.begin_step();
  const at::Tensor sum = my_loss(*net, context, 0);
  expect_absent();
  sum.backward();
  expect_absent();
  open.finish();
  for (const at::Tensor& each : net->parameters()) EXPECT_FALSE(each.grad().defined() && readable(each.grad()));
}

template <typename Net>
void expect_gathers(const std::vector<std::string>& units) {
  Context context = make_context({.switches = {.cache = false}});
  const auto net = network<Net>();
  const WrappedModule parameters = shard(context, *net, {.units = units});
  const Sizes sizes(parameters.parameters());
  const int64_t needed = units.empty() ? 1 : sizes.root + 2 * sizes.blocks;
  torch::optim::SGD optimizer(parameters.local(), 1e-3);
  constexpr int kSteps = 5;
  for (int step = 0; step < kSteps; ++step) {
    auto open = context.begin_step();
    my_loss(*net, context, step).backward();
    open.finish();
    optimizer.step();
  }
  EXPECT_LE(context.scheduler().gather_counters().gathers, kSteps * needed);
}

TEST(WrappedSteps, PrefetchGathersNothingInVain) {
  expect_gathers<ResNet>(kBlocks);
  expect_gathers<ResNet>({});
}

TEST(WrappedSteps, TwoForwardsAndSeveralBackwards) {
  const auto plain = network<ResNet>();
  (loss(*plain, 0, 0, kRows) + loss(*plain, 1, 0, kRows)).backward();
  loss(*plain, 2, 0, kRows).backward();
  Context context = make_context();
  const auto net = network<ResNet>();
  const WrappedModule parameters = shard(context, *net, {.units = kBlocks});
  auto open = context.begin_step({.micro_batches = 2});
  (my_loss(*net, context, 0) + my_loss(*net, context, 1)).backward();
  my_loss(*net, context, 2).backward();
  open.finish();
  expect_local(parameters, of_plain(*plain, [](const at::Tensor& each) { return each.grad(); }), true, 1e-12, "sum");
}

TEST(WrappedSteps, EvaluatesBetweenSteps) {
  const auto plain = network<UnitLstm>();
  torch::optim::SGD plain_optimizer(plain->parameters(), 0.1);
  Context context = make_context();
  const auto net = network<UnitLstm>();
  const WrappedModule parameters = shard(context, *net);
  torch::optim::SGD optimizer(parameters.local(), 0.1);
  for (int step = 0; step < 3; ++step) {
    {
      const at::NoGradGuard no_grad;
      const auto whole = parameters.gathered();
      const double got = loss(*net, 50, 0, kRows).item<double>(), need = loss(*plain, 50, 0, kRows).item<double>();
      EXPECT_NEAR(got, need, 1e-11 * std::abs(need)) << step;
    }
    auto open = context.begin_step();
    my_loss(*net, context, step).backward();
    open.finish();
    optimizer.step();
    loss(*plain, step, 0, kRows).backward();
    plain_optimizer.step();
    plain_optimizer.zero_grad();
  }
}

struct Heads : torch::nn::Module {
  Heads() : stem(8, 160), first(160, 10), second(160, 10), never(40, 40) {
    register_module("stem", stem);
    register_module("first", first);
    register_module("second", second);
    register_module("never", never);
  }
  // Rows before the middle go to one head, the others to the other one.
  at::Tensor forward(const at::Tensor& x, bool early) { return (early ? first : second)(torch::tanh(stem(x))); }
  torch::nn::Linear stem, first, second, never;
};

TEST(WrappedSteps, UnusedParametersGetZeros) {
  const auto plain = network<Heads>();
  const at::Tensor rows = torch::randn({kRows, 8}, torch::kDouble);
  const auto part = [&](Heads& net, int64_t first, int64_t count) {
    return net.forward(rows.narrow(0, first, count), first < kRows / 2).pow(3).sum();
  };
  Context context = make_context();
  const RowShare share = context.row_share();
  const int64_t mine = kRows / share.groups;
  for (int64_t group = 0; group < share.groups; ++group) part(*plain, group * mine, mine).backward();
  const auto net = network<Heads>();
  const WrappedModule parameters = shard(context, *net, {.unused = Unused::zero});
  auto open = context.begin_step();
  part(*net, share.mine * mine, mine).backward();
  open.finish();
  expect_local(
      parameters,
      of_plain(*plain,
               [](const at::Tensor& each) { return each.grad().defined() ? each.grad() : at::zeros_like(each); }),
      true, 1e-12, "heads");
}

struct Chain : torch::nn::Module {
  Chain() : in(12, 40), first(torch::nn::LinearOptions(40, 40)), second(torch::nn::LinearOptions(40, 40)) {
    register_module("in", in);
    register_module("first", first);
    register_module("second", second);
  }
  at::Tensor block(const at::Tensor& x) { return torch::tanh(second(torch::tanh(first(x)))); }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor stream = in(x);
    if (context == nullptr) return block(block(stream));
    const auto checkpointed = [&](const at::Tensor& given) {
      return activation_checkpoint(
                 *context, [&](const std::vector<Value>& inputs) { return Value{block(inputs[0].tensor), 40, {}}; },
                 {Value{given, 40, {}}})
          .tensor;
    };
    return checkpointed(stream);
  }
  static at::Tensor input() { return torch::randn({kRows, 12}, torch::kDouble); }
  torch::nn::Linear in;
  Unit<torch::nn::Linear> first, second;
  Context* context = nullptr;
};

TEST(WrappedSteps, RecomputesCheckpointedUnits) {
  const auto plain = network<Chain>();
  const auto value = [](Chain& net, at::Tensor x) { return net.block(net.in(x)).pow(3).sum(); };
  torch::manual_seed(5);
  const at::Tensor rows = Chain::input();
  value(*plain, rows).backward();
  Context context = make_context();
  const RowShare share = context.row_share();
  const int64_t mine = kRows / share.groups;
  const auto net = network<Chain>();
  const WrappedModule parameters = shard(context, *net);
  net->context = &context;
  for (int step = 0; step < 2; ++step) {
    auto open = context.begin_step();
    net->forward(rows.narrow(0, share.mine * mine, mine)).pow(3).sum().backward();
    open.finish();
    expect_local(parameters, of_plain(*plain, [](const at::Tensor& each) { return each.grad(); }), true, 1e-12,
                 "chain");
  }
}

// Statistics are those of each rank's rows, and every step begins with the first rank's.
TEST(WrappedSteps, BuffersOfTheFirstRank) {
  const auto train = [](ResNet& net) { net.train(); };
  const auto plain = network<ResNet>(), net = network<ResNet>();
  train(*plain), train(*net);
  Context context = make_context();
  const RowShare share = context.row_share();
  const int64_t mine = kRows / share.groups;
  const WrappedModule parameters = shard(context, *net, {.units = kBlocks, .buffers = Buffers::first_rank});
  const auto buffers = [](ResNet& of) {
    std::vector<at::Tensor> copies;
    for (const at::Tensor& each : of.buffers()) copies.push_back(each.clone());
    return copies;
  };
  for (int step = 0; step < 3; ++step) {
    auto open = context.begin_step();
    my_loss(*net, context, step).backward();
    open.finish();
    std::vector<at::Tensor> before = buffers(*plain), after, own;
    plain->zero_grad();
    for (int64_t group = 0; group < share.groups; ++group) {
      for (size_t i = 0; i < before.size(); ++i) plain->buffers()[i].copy_(before[i]);
      loss(*plain, step, group * mine, mine).backward();
      if (group == 0) after = buffers(*plain);
      if (group == share.mine) own = buffers(*plain);
    }
    for (size_t i = 0; i < after.size(); ++i) plain->buffers()[i].copy_(after[i]);
    expect_local(parameters, of_plain(*plain, [](const at::Tensor& each) { return each.grad(); }), true, 1e-12, "bn");
    for (size_t i = 0; i < own.size(); ++i) EXPECT_TRUE(net->buffers()[i].allclose(own[i], 1e-12, 1e-12)) << step;
  }
}

TEST(WrappedSteps, Bf16HasMasterWeightsOfFp32) {
  Context context(test_environment(), grid_of_job(), {.dtype = at::kBFloat16});
  torch::manual_seed(1);
  const auto net = std::make_shared<Chain>(), plain = std::make_shared<Chain>();
  {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < plain->parameters().size(); ++i) plain->parameters()[i].copy_(net->parameters()[i]);
  }
  const WrappedModule parameters = shard(context, *net);
  torch::optim::AdamW optimizer(parameters.local(), torch::optim::AdamWOptions(1e-3));
  const RowShare share = context.row_share();
  const int64_t mine = kRows / share.groups;
  const at::Tensor rows = torch::randn({kRows, 12});
  for (int step = 0; step < 3; ++step) {
    auto open = context.begin_step();
    net->block(net->in(rows.narrow(0, share.mine * mine, mine).to(at::kBFloat16))).to(at::kFloat).sum().backward();
    open.finish();
    if (step == 0) {
      plain->block(plain->in(rows)).sum().backward();
      expect_local(parameters, of_plain(*plain, [](const at::Tensor& each) { return each.grad(); }), true, 0.03,
                   "bf16");
    }
    optimizer.step();
  }
  const auto whole = parameters.gathered();
  const at::Tensor rounded = net->in->weight, master = parameters.local()[0];
  EXPECT_EQ(rounded.scalar_type(), at::kBFloat16);
  EXPECT_EQ(master.scalar_type(), at::kFloat);
  const Range range = parameters.parameters().list()[0].slot().range;
  EXPECT_TRUE(rounded.flatten().narrow(0, range.begin, range.size()).equal(master.to(at::kBFloat16)));
}

TEST(WrappedSteps, ClipsOverTheGrid) {
  const auto plain = network<UnitLstm>();
  loss(*plain, 0, 0, kRows).backward();
  double squares = 0;
  for (const at::Tensor& each : plain->parameters()) squares += each.grad().square().sum().item<double>();
  Context context = make_context();
  const auto net = network<UnitLstm>();
  const WrappedModule parameters = shard(context, *net);
  auto open = context.begin_step();
  my_loss(*net, context, 0).backward();
  open.finish();
  const double norm = std::sqrt(squares), scale = 0.5 / (norm + 1e-6);
  EXPECT_NEAR(clip_grad_norm_(parameters, 0.5), norm, 1e-12 * norm);
  expect_local(parameters, of_plain(*plain, [&](const at::Tensor& each) { return each.grad() * scale; }), true, 1e-12,
               "clipped");
}

TEST(WrappedSteps, GradientsCanBeSetToZero) {
  Context context = make_context();
  const auto net = network<UnitLstm>();
  const WrappedModule parameters = shard(context, *net);
  torch::optim::SGD optimizer(parameters.local(), 1e-3);
  std::vector<at::Tensor> first;
  for (const bool to_none : {false, true, false}) {
    auto open = context.begin_step();
    my_loss(*net, context, 0).backward();
    open.finish();
    if (first.empty())
      for (const at::Tensor& each : parameters.local()) first.push_back(each.grad().clone());
    for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(parameters.local()[i].grad().equal(first[i]));
    optimizer.zero_grad(to_none);
    for (const at::Tensor& each : parameters.local())
      EXPECT_TRUE(to_none ? !each.grad().defined() : each.grad().count_nonzero().item<int64_t>() == 0);
  }
}

TEST(WrappedSteps, OptimizersOfAxonnUpdateIt) {
  for (const UpdateSchedule schedule : {UpdateSchedule::ar_opt, UpdateSchedule::rs_opt_ag, UpdateSchedule::fuse}) {
    const auto plain = network<UnitLstm>();
    torch::optim::SGD plain_optimizer(plain->parameters(), 0.1);
    Context context(test_environment(), {.data = test_environment().ranks()}, {.dtype = at::kDouble});
    const auto net = network<UnitLstm>();
    const WrappedModule parameters = shard(context, *net);
    const auto optimizer =
        make_optimizer(context, parameters.parameters(),
                       {.kind = OptimizerKind::sgd, .schedule = schedule, .learning_rate = 0.1, .weight_decay = 0});
    for (int step = 0; step < 3; ++step) {
      auto open = context.begin_step();
      my_loss(*net, context, step).backward();
      open.finish();
      EXPECT_EQ(parameters.local()[0].grad().defined(), parameters.parameters().schedule().whole_gradients());
      optimizer->step();
      loss(*plain, step, 0, kRows).backward();
      plain_optimizer.step();
      plain_optimizer.zero_grad();
    }
    parameters.parameters().schedule().wait_for_weights();
    expect_local(parameters, of_plain(*plain, [](const at::Tensor& each) { return each; }), false, 1e-12, "sgd");
  }
}

// A step that was given up leaves nothing behind.
TEST(WrappedSteps, CanBeGivenUp) {
  Context context = make_context();
  const auto net = network<ResNet>(), plain = network<ResNet>();
  const WrappedModule parameters = shard(context, *net, {.units = kBlocks});
  auto lost = context.begin_step();
  my_loss(*net, context, 3).backward();
  const at::Tensor forward_only = my_loss(*net, context, 4);
  lost.abandon();
  auto open = context.begin_step();
  my_loss(*net, context, 0).backward();
  open.finish();
  loss(*plain, 0, 0, kRows).backward();
  expect_local(parameters, of_plain(*plain, [](const at::Tensor& each) { return each.grad(); }), true, 1e-12, "again");
}

}  // namespace
}  // namespace axonn
