#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "axonn/layers/compare/differences.hpp"
#include "axonn/wrap/parallelize.hpp"
#include "axonn/wrap/state_dict.hpp"
#include "axonn/wrap/verify_module.hpp"
#include "support/shared_directory.hpp"
#include "wrap/wrapped.hpp"
#include "wrap/wrapped_network.hpp"

// Comparisons of a network that is divided over X and Y.
namespace axonn::test {

inline GridShape parallel_grid() {
  switch (test_environment().ranks()) {
    case 1:
      return {};
    case 2:
      return {.x = 2};
    case 4:
      return {.y = 2, .z = 2};
    case 6:
      return {.x = 3, .z = 2};
    case 8:
      return {.x = 2, .y = 2, .data = 2};
    default:
      return {.x = 2, .y = 2, .z = 2, .data = 2};
  }
}

inline Context make_context(const OverlapPolicy& policy = {}) {
  return Context(test_environment(), parallel_grid(), {.dtype = at::kDouble, .overlap = policy});
}

template <typename Net>
void expect_verified(const ShardOptions& sharding = {}) {
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
      .wrap = [&](Context& on, torch::nn::Module& module) { return parallelize(on, module, sharding); }};
  const Verification result = verify(context, make, batches, options);
  EXPECT_TRUE(result.passes()) << context.shape().to_string() << '\n' << result.table();
  EXPECT_EQ(result.differences.size(),
            1 + of_plain(*network<Net>(), [](const at::Tensor& each) { return each; }).size());
}

// Local weights after some steps of AdamW.
template <typename Net>
std::vector<at::Tensor> trained(const OverlapPolicy& policy, int steps, WrappedModule* last = nullptr,
                                const SplitPlan& plan = {}) {
  Context context = make_context(policy);
  const auto net = network<Net>();
  const WrappedModule parameters = parallelize(context, *net, {.plan = plan});
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

template <typename Net>
void expect_same_bits() {
  const auto need = trained<Net>(OverlapPolicy::none(), 2);
  for (unsigned bits = 0; bits < kSwitchCombinations<OverlapSwitches>; ++bits) {
    const OverlapPolicy policy{
        .switches = switches_of<OverlapSwitches>(bits), .bucket_bytes = 2 << 10, .cache_budget = {.bytes = 4 << 10}};
    const auto got = trained<Net>(policy, 2);
    for (size_t i = 0; i < need.size(); ++i) ASSERT_TRUE(got[i].equal(need[i])) << to_string(policy.switches);
  }
}

inline std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Weights and optimizer state lie in the file as the plain module would have them.
template <typename Net>
void expect_same_files() {
  const SharedDirectory directory;
  if (test_environment().rank() == 0) std::filesystem::create_directories(directory.path());
  directory.barrier();
  Context context = make_context();
  const auto net = network<Net>();
  const WrappedModule parameters = parallelize(context, *net);
  torch::optim::AdamW optimizer(parameters.local(), adamw());
  auto open = context.begin_step();
  my_loss(*net, context, 0).backward();
  open.finish();
  optimizer.step();
  save_state_dict(parameters, directory / "weights");
  save_optimizer(parameters, optimizer, directory / "optimizer");

  Context alone(test_environment(), {}, {.dtype = at::kDouble, .job_ranks = {test_environment().rank()}});
  const auto other = network<Net>(2);
  const WrappedModule on_one = shard(alone, *other);
  torch::optim::AdamW moved(on_one.local(), adamw());
  load_state_dict(on_one, directory / "weights");
  load_optimizer(on_one, moved, directory / "optimizer");
  const std::string mine = std::to_string(test_environment().rank());
  save_state_dict(on_one, directory / ("weights" + mine));
  save_optimizer(on_one, moved, directory / ("optimizer" + mine));
  EXPECT_EQ(bytes_of(directory / ("weights" + mine)), bytes_of(directory / "weights"));
  EXPECT_EQ(bytes_of(directory / ("optimizer" + mine)), bytes_of(directory / "optimizer"));

  const auto third = network<Net>(3);
  const WrappedModule again = parallelize(context, *third);
  load_state_dict(again, directory / ("weights" + mine));
  for (size_t i = 0; i < again.local().size(); ++i)
    EXPECT_TRUE(again.local()[i].equal(parameters.local()[i])) << again.names()[i];
  const at::NoGradGuard no_grad;
  const auto whole = again.gathered();
  EXPECT_TRUE(third->forward(Net::input()).defined());
  directory.barrier();
}

}  // namespace axonn::test
