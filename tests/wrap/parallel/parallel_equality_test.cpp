// Sequentials divided over X and Y beside the plain ones in one process.
#include <fstream>
#include <iterator>
#include <vector>

#include "axonn/layers/compare/differences.hpp"
#include "axonn/wrap/state_dict.hpp"
#include "support/shared_directory.hpp"
#include "wrap/parallel/parallel_networks.hpp"
#include "wrap/wrapped_network.hpp"

namespace axonn {
namespace {

using namespace test;

Context make_context(const OverlapPolicy& policy = {}) {
  return Context(test_environment(), parallel_grid(), {.dtype = at::kDouble, .overlap = policy});
}

template <typename Net>
void expect_verified(const std::vector<std::string>& units = {}) {
  torch::manual_seed(20);
  std::vector<BatchOfRows> batches;
  for (int i = 0; i < 2; ++i) {
    const at::Tensor input = Net::input(), output = network<Net>()->forward(input);
    batches.push_back({input, torch::randn_like(output)});
  }
  const auto make = [] {
    const auto net = network<Net>();
    return PlainNetwork{net, [net](const BatchOfRows& rows) { return (net->forward(rows[0]) * rows[1]).sum(); }};
  };
  Context context = make_context();
  const VerifyOptions options{
      .wrap = [&](Context& on, torch::nn::Module& module) { return parallelize(on, module, {.units = units}); }};
  const Verification result = verify(context, make, batches, options);
  EXPECT_TRUE(result.passes()) << context.shape().to_string() << '\n' << result.table();
  EXPECT_EQ(result.differences.size(),
            1 + of_plain(*network<Net>(), [](const at::Tensor& each) { return each; }).size());
}

TEST(ParallelEquality, Mlp) { expect_verified<Mlp>(); }
TEST(ParallelEquality, Pictures) {
  expect_verified<Pictures>();
  expect_verified<EvenPictures>();
  expect_verified<FewChannels>();
}
TEST(ParallelEquality, Words) { expect_verified<Words>(); }
TEST(ParallelEquality, SequentialsInAModule) { expect_verified<Mixed>({"body.*"}); }

// Local weights after some steps of AdamW.
template <typename Net>
std::vector<at::Tensor> trained(const OverlapPolicy& policy, int steps, WrappedModule* last = nullptr) {
  Context context = make_context(policy);
  const auto net = network<Net>();
  const WrappedModule parameters = parallelize(context, *net);
  torch::optim::AdamW optimizer(parameters.local(), adamw());
  for (int step = 0; step < steps; ++step) {
    auto open = context.begin_step();
    my_loss(*net, context, step).backward();
    open.finish();
    optimizer.step();
  }
  std::vector<at::Tensor> weights;
  for (const at::Tensor& each : parameters.local()) weights.push_back(each.detach().clone());
  if (last != nullptr) *last = parameters;
  return weights;
}

template <typename Net>
void expect_trained() {
  constexpr int kSteps = 5;
  const auto plain = network<Net>();
  torch::optim::AdamW optimizer(plain->parameters(), adamw());
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    loss(*plain, step, 0, kRows).backward();
    optimizer.step();
  }
  Context plan = Context::plan(parallel_grid(), {.dtype = at::kDouble}, test_environment().rank());
  WrappedModule parameters(nullptr);
  const std::vector<at::Tensor> got = trained<Net>({}, kSteps, &parameters);
  const auto& slots = parameters.parameters().arena().slots();
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i].numel() == 0) continue;
    const at::Tensor whole = plain->named_parameters()[slots[i].name].detach();
    const at::Tensor need =
        stored_part(parameters.network().found().trained[i].stored(whole), slots[i], plan.shape(), plan.at());
    EXPECT_LE((got[i] - need).abs().max().item<double>() / whole.abs().max().item<double>(), 1e-10) << slots[i].name;
  }
}

TEST(ParallelEquality, WeightsAfterSomeSteps) {
  expect_trained<Mlp>();
  expect_trained<Pictures>();
}

template <typename Net>
void expect_same_bits() {
  const auto need = trained<Net>(OverlapPolicy::none(), 2);
  for (unsigned bits = 0; bits < kOverlapCombinations; ++bits) {
    const OverlapPolicy policy{
        .switches = overlap_switches_of(bits), .bucket_bytes = 2 << 10, .cache_budget = {.bytes = 4 << 10}};
    const auto got = trained<Net>(policy, 2);
    for (size_t i = 0; i < need.size(); ++i) ASSERT_TRUE(got[i].equal(need[i])) << to_string(policy.switches);
  }
}

TEST(ParallelEquality, EveryPolicyHasTheSameBits) {
  expect_same_bits<Mlp>();
  expect_same_bits<Pictures>();
}

// A weight is divided by X, Y and Z, and between Linears nothing is gathered.
TEST(ParallelEquality, HoldsAndMovesWhatIsNeeded) {
  Context context = make_context(OverlapPolicy::none());
  nn::Sequential net(nn::Linear(48, 96), nn::ReLU(), nn::Linear(96, 48), nn::ReLU(), nn::Linear(48, 96));
  net->to(torch::kDouble);
  const WrappedModule parameters = parallelize(context, *net);
  const GridShape& shape = context.shape();
  for (const ArenaSlot& slot : parameters.parameters().arena().slots())
    EXPECT_TRUE(slot.spec.dims.size() == 1 || slot.range.size() == 48 * 96 / (shape.x * shape.y * shape.z))
        << slot.name;
  auto step = context.begin_step();
  net->forward(torch::ones({kRows / context.row_share().groups, 48}, torch::kDouble)).sum().backward();
  step.finish();
  const TrafficSums& sums = context.scheduler().traffic().sums();
  const int64_t over_x = shape.x > 1, over_y = shape.y > 1;
  // Forward sums over Y, X, Y and gathers the output over X; backward sums over X and Y, as the
  // first input needs no gradient. Z gathers two weights twice.
  EXPECT_EQ(sums[static_cast<size_t>(Traffic::all_reduce)].collectives, 3 * over_x + 3 * over_y);
  EXPECT_EQ(sums[static_cast<size_t>(Traffic::all_gather)].collectives, shape.z > 1 ? 5 : 0);
}

// The masks are those of one rank.
TEST(ParallelEquality, DropoutFollowsTheSamples) {
  const auto make = [] {
    torch::manual_seed(3);
    nn::Sequential net(nn::Linear(20, 37), nn::Dropout(0.3), nn::ReLU(), nn::Linear(37, 24),
                       nn::Unflatten(1, std::vector<int64_t>{6, 2, 2}), nn::Conv2d(nn::Conv2dOptions(6, 10, 1)),
                       nn::Dropout(0.5), nn::Flatten(), nn::Dropout(0.1), nn::Linear(40, 7));
    net->to(torch::kDouble);
    return net;
  };
  const auto run = [](Context& context, nn::Sequential& net, int64_t first, int64_t rows) {
    torch::manual_seed(4);
    const at::Tensor input = Mlp::input().narrow(0, first, rows);
    const WrappedModule parameters = parallelize(context, *net);
    auto step = context.begin_step();
    context.set_samples({.seed = 5, .first = first});
    const at::Tensor dropped = net->forward(input);
    net->eval();
    const at::Tensor kept = net->forward(input);
    step.abandon();
    return std::pair{dropped.detach(), kept.detach()};
  };
  Context context = make_context();
  Context alone(test_environment(), {}, {.dtype = at::kDouble, .job_ranks = {test_environment().rank()}});
  const RowShare share = context.row_share();
  const int64_t rows = kRows / share.groups, first = share.mine * rows;
  nn::Sequential on_grid = make(), on_one = make(), plain = make();
  const auto [dropped, kept] = run(context, on_grid, first, rows);
  const auto [need, need_kept] = run(alone, on_one, 0, kRows);
  EXPECT_TRUE(dropped.allclose(need.narrow(0, first, rows), 1e-12, 1e-12));
  EXPECT_FALSE(dropped.allclose(kept, 1e-3, 1e-3));
  plain->eval();
  torch::manual_seed(4);
  EXPECT_TRUE(kept.allclose(plain->forward(Mlp::input().narrow(0, first, rows)), 1e-12, 1e-12));
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Weights and optimizer state lie in the file as the plain module would have them.
TEST(ParallelEquality, FilesAreTheSameOnOneRank) {
  const SharedDirectory directory;
  if (test_environment().rank() == 0) std::filesystem::create_directories(directory.path());
  directory.barrier();
  Context context = make_context();
  const auto net = network<Pictures>();
  const WrappedModule parameters = parallelize(context, *net);
  torch::optim::AdamW optimizer(parameters.local(), adamw());
  auto open = context.begin_step();
  my_loss(*net, context, 0).backward();
  open.finish();
  optimizer.step();
  save_state_dict(parameters, directory / "weights");
  save_optimizer(parameters, optimizer, directory / "optimizer");

  Context alone(test_environment(), {}, {.dtype = at::kDouble, .job_ranks = {test_environment().rank()}});
  const auto other = network<Pictures>(2);
  const WrappedModule on_one = shard(alone, *other);
  torch::optim::AdamW moved(on_one.local(), adamw());
  load_state_dict(on_one, directory / "weights");
  load_optimizer(on_one, moved, directory / "optimizer");
  const std::string mine = std::to_string(test_environment().rank());
  save_state_dict(on_one, directory / ("weights" + mine));
  save_optimizer(on_one, moved, directory / ("optimizer" + mine));
  EXPECT_EQ(bytes_of(directory / ("weights" + mine)), bytes_of(directory / "weights"));
  EXPECT_EQ(bytes_of(directory / ("optimizer" + mine)), bytes_of(directory / "optimizer"));

  const auto third = network<Pictures>(3);
  const WrappedModule again = parallelize(context, *third);
  load_state_dict(again, directory / ("weights" + mine));
  for (size_t i = 0; i < again.local().size(); ++i)
    EXPECT_TRUE(again.local()[i].equal(parameters.local()[i])) << again.names()[i];
  const at::NoGradGuard no_grad;
  const auto whole = again.gathered();
  EXPECT_TRUE(third->forward(Pictures::input().zero_()).defined());
  directory.barrier();
}

}  // namespace
}  // namespace axonn
