// Modules with typed members of axonn::nn on a grid beside one process.
#include "wrap/parallel/member_networks.hpp"

namespace axonn {
namespace {

using namespace test;
using members::Chain, members::Dropping, members::Images, members::SplitStream, members::Transformer;

TEST(MemberEquality, Transformer) { expect_verified<Transformer>(); }
TEST(MemberEquality, SplitStream) { expect_verified<SplitStream>(); }
TEST(MemberEquality, Images) { expect_verified<Images>(); }
TEST(MemberEquality, Chain) { expect_verified<Chain>(); }

TEST(MemberEquality, WeightsAfterSomeSteps) {
  expect_trained<Transformer>();
  expect_trained<SplitStream>();
  expect_trained<Images>();
}

TEST(MemberEquality, EveryPolicyHasTheSameBits) {
  if (test_environment().ranks() > 6) GTEST_SKIP() << "on up to six ranks";
  expect_same_bits<Transformer>();
}

TEST(MemberEquality, FilesAreTheSameOnOneRank) {
  expect_same_files<Transformer>();
  expect_same_files<Images>();
}

TEST(MemberEquality, RunningStatisticsAreThoseOfOneProcess) {
  const auto plain = network<Images>(), net = network<Images>();
  Context context = make_context();
  const WrappedModule parameters = parallelize(context, *net);
  for (int step = 0; step < 2; ++step) {
    loss(*plain, step, 0, kRows);
    auto open = context.begin_step();
    my_loss(*net, context, step).backward();
    open.finish();
  }
  const auto need = plain->named_buffers(), got = net->named_buffers();
  ASSERT_EQ(got.size(), 6);
  for (const auto& each : got)
    EXPECT_TRUE(each.value().allclose(need[each.key()], 1e-12, 1e-12)) << each.key() << '\n' << each.value();
  plain->eval();
  net->eval();
  const at::NoGradGuard no_grad;
  const auto whole = parameters.gathered();
  torch::manual_seed(9);
  const at::Tensor images = Images::input();
  EXPECT_TRUE(net->forward(images).allclose(plain->forward(images), 1e-12, 1e-12));
}

// Between the members of a pair nothing is gathered, and a weight is divided by X, Y and Z.
TEST(MemberEquality, HoldsAndMovesWhatIsNeeded) {
  struct Pair : members::nn::Module {
    explicit Pair(bool keeps) : up(48, 96), down(96, 48) {
      register_module("up", up);
      register_module("down", down);
      if (keeps) members::nn::keep_split(up, down);
    }
    members::nn::Linear up, down;
  };
  for (const bool keeps : {true, false}) {
    Context context = make_context(OverlapPolicy::none());
    const auto net = std::make_shared<Pair>(keeps);
    net->to(torch::kDouble);
    const WrappedModule parameters = parallelize(context, *net);
    const GridShape& shape = context.shape();
    for (const ArenaSlot& slot : parameters.parameters().arena().slots())
      EXPECT_TRUE(slot.spec.dims.size() == 1 || slot.range.size() == 48 * 96 / (shape.x * shape.y * shape.z))
          << slot.name;
    auto step = context.begin_step();
    const at::Tensor middle = net->up(torch::ones({kRows / context.row_share().groups, 48}, torch::kDouble));
    EXPECT_EQ(middle.size(1), keeps ? 96 / shape.x : 96);
    net->down(torch::relu(middle)).sum().backward();
    step.finish();
    const TrafficSums& sums = context.scheduler().traffic().sums();
    const int64_t over_x = shape.x > 1, over_y = shape.y > 1;
    // Kept: forward sums over Y and X and gathers the output over Y; backward sums over Y, as the
    // first input needs no gradient. Otherwise forward sums over Y and gathers over X, twice, and
    // backward sums over X and gathers over Y.
    EXPECT_EQ(sums[static_cast<size_t>(Traffic::all_reduce)].collectives,
              keeps ? 3 * over_y + over_x : 3 * over_y + 3 * over_x);
  }
}

// The masks are those of one rank.
TEST(MemberEquality, DropoutFollowsTheSamples) {
  const auto run = [](Context& context, int64_t first, int64_t rows) {
    const auto net = network<Dropping>();
    torch::manual_seed(4);
    const at::Tensor input = Dropping::input().narrow(0, first, rows);
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
  const auto [dropped, kept] = run(context, first, rows);
  const auto [need, need_kept] = run(alone, 0, kRows);
  EXPECT_TRUE(dropped.allclose(need.narrow(0, first, rows), 1e-12, 1e-12));
  EXPECT_FALSE(dropped.allclose(kept, 1e-3, 1e-3));
  const auto plain = network<Dropping>();
  plain->eval();
  torch::manual_seed(4);
  EXPECT_TRUE(kept.allclose(plain->forward(Dropping::input().narrow(0, first, rows)), 1e-12, 1e-12));
}

// Until parallelize() a typed member is LibTorch's module, with its initial values.
template <typename Ours, typename Theirs>
void expect_alike(const Ours& ours, const Theirs& theirs) {
  std::ostringstream text, need;
  text << *ours;
  need << *theirs;
  EXPECT_EQ(text.str(), need.str());
  const auto got = ours->named_parameters(), wanted = theirs->named_parameters();
  ASSERT_EQ(got.keys(), wanted.keys());
  for (const auto& each : got) EXPECT_TRUE(each.value().equal(wanted[each.key()])) << need.str() << ' ' << each.key();
}

TEST(MemberEquality, InitialValuesAreThoseOfLibTorch) {
  if (test_environment().ranks() > 1) GTEST_SKIP() << "on one rank";
  const auto seeded = [](auto make) {
    torch::manual_seed(7);
    return make();
  };
  expect_alike(seeded([] { return members::nn::Linear(5, 7); }), seeded([] { return torch::nn::Linear(5, 7); }));
  expect_alike(seeded([] { return members::nn::Conv2d(members::nn::Conv2dOptions(4, 6, 3).groups(2)); }),
               seeded([] { return torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 6, 3).groups(2)); }));
  expect_alike(seeded([] { return members::nn::Embedding(5, 7); }), seeded([] { return torch::nn::Embedding(5, 7); }));
  expect_alike(members::nn::LayerNorm(members::nn::LayerNormOptions({4, 3})),
               torch::nn::LayerNorm(torch::nn::LayerNormOptions({4, 3})));
  expect_alike(members::nn::GroupNorm(2, 6), torch::nn::GroupNorm(2, 6));
  expect_alike(members::nn::Dropout(0.3), torch::nn::Dropout(0.3));
  expect_alike(members::nn::BatchNorm1d(6), torch::nn::BatchNorm1d(6));
  expect_alike(members::nn::BatchNorm2d(6), torch::nn::BatchNorm2d(6));
}

}  // namespace
}  // namespace axonn
