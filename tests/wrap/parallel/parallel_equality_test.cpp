// Sequentials divided over X and Y beside the plain ones in one process.
#include <vector>

#include "wrap/parallel/parallel_networks.hpp"

namespace axonn {
namespace {

using namespace test;

TEST(ParallelEquality, Mlp) { expect_verified<Mlp>(); }
TEST(ParallelEquality, OneScore) {
  expect_verified<OneScore>();
  expect_trained<OneScore>();
}
TEST(ParallelEquality, Pictures) {
  expect_verified<Pictures>();
  expect_verified<EvenPictures>();
  expect_verified<FewChannels>();
}
TEST(ParallelEquality, Words) { expect_verified<Words>(); }
TEST(ParallelEquality, SequentialsInAModule) { expect_verified<Mixed>({.units = {"body.*"}}); }

TEST(ParallelEquality, WeightsAfterSomeSteps) {
  expect_trained<Mlp>();
  expect_trained<Pictures>();
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

TEST(ParallelEquality, FilesAreTheSameOnOneRank) { expect_same_files<Pictures>(); }

}  // namespace
}  // namespace axonn
