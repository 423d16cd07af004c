// Parameters without gradients: sharded like the others, and whole only while their unit computes.
#include <vector>

#include <torch/optim/sgd.h>

#include "axonn/wrap/state_dict.hpp"
#include "support/shared_directory.hpp"
#include "support/user_error.hpp"
#include "wrap/wrapped.hpp"
#include "wrap/wrapped_network.hpp"

namespace axonn {
namespace {

using namespace test;

constexpr int64_t kWidth = 64;

void freeze(torch::nn::Module& module) {
  for (at::Tensor& each : module.parameters()) each.requires_grad_(false);
}

// As in LoRA. Backward has the adapters' gradients before it reads the frozen weight.
struct Adapted : torch::nn::Module {
  Adapted()
      : whole(kWidth, kWidth),
        down(torch::nn::LinearOptions(kWidth, 16).bias(false)),
        up(torch::nn::LinearOptions(16, kWidth).bias(false)) {
    register_module("whole", whole);
    register_module("down", down);
    register_module("up", up);
    freeze(*whole);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor kept = x + torch::tanh(whole(x));  // first, so that backward has it last
    return kept + up(torch::tanh(down(x)));
  }
  torch::nn::Linear whole, down, up;
};

// Nothing of it is trained, but backward leads through it.
struct AllFrozen : torch::nn::Module {
  AllFrozen() : first(kWidth, kWidth), second(kWidth, kWidth) {
    register_module("first", first);
    register_module("second", second);
    freeze(*this);
  }
  at::Tensor forward(const at::Tensor& x) { return second(torch::tanh(first(x))); }
  torch::nn::Linear first, second;
};

struct Tuned : torch::nn::Module {
  Tuned() : features(kWidth, kWidth), stem(12, kWidth), head(kWidth, kWidth) {
    register_module("features", features);
    register_module("stem", stem);
    blocks->push_back("a", Adapted());
    blocks->push_back("b", AllFrozen());
    blocks->push_back("c", Adapted());
    register_module("blocks", blocks);
    register_module("twice", twice);
    register_module("head", head);
    freeze(*features);
    freeze(*head);
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor sides = features(x.narrow(1, 12, kWidth));  // no gradient reaches it
    return head(twice(twice(blocks->forward(stem(x.narrow(1, 0, 12)) + sides))));
  }
  static at::Tensor input() { return torch::randn({kRows, 12 + kWidth}, torch::kDouble); }
  Unit<torch::nn::Linear> features;
  torch::nn::Linear stem;
  torch::nn::Sequential blocks;
  Unit<Adapted> twice;
  torch::nn::Linear head;
};

const ShardOptions kUnits = {.units = {"blocks.*"}};
const std::vector<std::string> kFrozenInUnits = {"features.weight", "blocks.a.whole.weight", "blocks.b.first.weight",
                                                 "blocks.b.second.weight", "twice.whole.weight"};

TEST(Frozen, TheOthersAreTrainedAsInThePlainModule) {
  const auto plain = network<Tuned>();
  torch::optim::AdamW plain_optimizer(plain->parameters(), adamw());
  std::vector<Tensors> gradients;
  for (int step = 0; step < 4; ++step) {
    loss(*plain, step, 0, kRows).backward();
    loss(*plain, step + 10, 0, kRows).backward();
    gradients.push_back(of_plain(*plain, [](const at::Tensor& each) { return each.grad(); }));
    plain_optimizer.step();
    plain_optimizer.zero_grad();
  }
  const Tensors weights = of_plain(*plain, [](const at::Tensor& each) { return each; });
  for (const GridShape& grid : wrapped_grids())
    for (const OverlapPolicy& policy : {OverlapPolicy(), OverlapPolicy::none()}) {
      Context context(test_environment(), grid, {.dtype = at::kDouble, .overlap = policy});
      const auto net = network<Tuned>(1 + test_environment().rank());  // rank 0's values count
      const WrappedModule parameters = shard(context, *net, kUnits);
      torch::optim::AdamW optimizer(parameters.local(), adamw());
      for (int step = 0; step < 4; ++step) {
        auto open = context.begin_step({.micro_batches = 2});
        my_loss(*net, context, step).backward();
        my_loss(*net, context, step + 10).backward();
        open.finish();
        if (step == 0) expect_local(parameters, gradients[0], /*gradients=*/true, 1e-12, grid.to_string());
        optimizer.step();
      }
      expect_local(parameters, weights, /*gradients=*/false, 1e-10, grid.to_string());
    }
}

TEST(Frozen, LieInPartsAndWithoutGradients) {
  Context context(test_environment(), wrapped_grids().front(),
                  {.dtype = at::kDouble, .overlap = OverlapPolicy::none()});
  const auto net = network<Tuned>();
  const WrappedModule parameters = shard(context, *net, kUnits);
  const Arena& frozen = parameters.network().frozen().arena();
  const int64_t z = context.shape().z;
  int64_t sharded = 0, small = 0;
  for (const ArenaSlot& slot : frozen.slots())
    (slot.spec.over_z ? sharded : small) += slot.spec.global_numel() + kRangeAlignment * z;
  EXPECT_EQ(frozen.slots().size(), 14u);
  EXPECT_LE(frozen.weights().numel(), sharded / z + small + BlockOwners::kBlock);
  EXPECT_FALSE(frozen.gradients().defined());

  for (int step = 0; step < 2; ++step) {
    auto open = context.begin_step();
    const at::Tensor sum = my_loss(*net, context, step);
    for (const std::string& name : kFrozenInUnits) EXPECT_EQ(readable(net->named_parameters()[name]), z == 1) << name;
    EXPECT_TRUE(readable(net->head->weight));
    sum.backward();
    for (const std::string& name : kFrozenInUnits) EXPECT_EQ(readable(net->named_parameters()[name]), z == 1) << name;
    open.finish();
    EXPECT_EQ(readable(net->head->weight), z == 1);
    // Frozen: the root, features once, blocks forward and back, `twice` once more forward. Of those
    // that are trained, nothing in the root is sharded.
    const auto& gathers = context.scheduler().traffic().sums()[static_cast<size_t>(Traffic::all_gather)];
    EXPECT_EQ(gathers.collectives, z > 1 ? (1 + 1 + 2 * 3 + 3) + (2 * 2 + 3) : 0);
  }
}

TEST(Frozen, FilesHaveThem) {
  const SharedDirectory directory;
  if (test_environment().rank() == 0) std::filesystem::create_directories(directory.path());
  directory.barrier();
  const auto plain = network<Tuned>();
  for (const GridShape& grid : wrapped_grids()) {
    Context context(test_environment(), grid, {.dtype = at::kDouble});
    const auto net = network<Tuned>(), other = network<Tuned>(7);
    const WrappedModule parameters = shard(context, *net, kUnits), others = shard(context, *other, kUnits);
    const at::NoGradGuard no_grad;
    const auto value = [&](const WrappedModule& wrapped, Tuned& of) {
      const auto whole = wrapped.gathered();
      return loss(of, 0, 0, kRows).item<double>();
    };
    const double need = loss(*plain, 0, 0, kRows).item<double>();
    EXPECT_NEAR(value(parameters, *net), need, 1e-11 * std::abs(need));
    EXPECT_GT(std::abs(value(others, *other) - need), 1e-3 * std::abs(need));
    save_state_dict(parameters, directory / "weights.safetensors");
    load_state_dict(others, directory / "weights.safetensors");
    EXPECT_NEAR(value(others, *other), need, 1e-11 * std::abs(need)) << grid.to_string();
  }
}

TEST(Frozen, Bf16HasMasterWeightsOfFp32) {
  const SharedDirectory directory;
  if (test_environment().rank() == 0) std::filesystem::create_directories(directory.path());
  directory.barrier();
  Context context(test_environment(), wrapped_grids().front(), {.dtype = at::kBFloat16});
  torch::manual_seed(1);
  const auto net = std::make_shared<Tuned>(), other = std::make_shared<Tuned>();
  const at::Tensor before = net->head->weight.clone();
  const WrappedModule parameters = shard(context, *net, kUnits), others = shard(context, *other, kUnits);
  const auto expect_rounded = [&](const WrappedModule& wrapped, const Tuned& of, bool equal) {
    const auto whole = wrapped.gathered();
    EXPECT_EQ(of.head->weight.scalar_type(), at::kBFloat16);
    EXPECT_EQ(of.head->weight.equal(before.to(at::kBFloat16)), equal);
  };
  EXPECT_EQ(parameters.network().frozen().arena().master().scalar_type(), at::kFloat);
  expect_rounded(parameters, *net, true);
  expect_rounded(others, *other, false);
  save_state_dict(parameters, directory / "weights.safetensors");
  load_state_dict(others, directory / "weights.safetensors");
  expect_rounded(others, *other, true);
}

TEST(Frozen, StaysFrozen) {
  Context context(test_environment(), wrapped_grids().front(), {.dtype = at::kDouble});
  const auto net = network<Tuned>();
  const WrappedModule parameters = shard(context, *net, kUnits);
  net->head->weight.requires_grad_(true);
  EXPECT_USER_ERROR(context.begin_step(), "'head.weight'", "did not when it was sharded");
  net->head->weight.requires_grad_(false);
  net->head->bias.set_data(torch::zeros({kWidth}, torch::kDouble));
  EXPECT_USER_ERROR(context.begin_step(), "'head.bias'", "other memory");
}

}  // namespace
}  // namespace axonn
