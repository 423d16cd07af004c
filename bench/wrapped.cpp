// A plain torch::nn module and the same module under axonn::shard(), step for step in turn, each
// rank with its own rows: what the wrapping costs, what it moves and what it holds. The plain ranks
// exchange nothing. Prints one JSON line on rank 0; bench/wrapped.py makes the tables, beside
// PyTorch.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>

#include <axonn/axonn.hpp>

#include "wrapped_networks.hpp"

namespace {

using namespace axonn;

constexpr double kLearningRate = 3e-4, kWeightDecay = 0.1, kBeta2 = 0.95, kMaxNorm = 1.0;

struct Settings {
  bench::WrappedSize size;
  std::string grid = "1x1x1x1", dtype = "fp32", optimizer = "torch", file;
  int steps = 6, warmup = 3;
  uint64_t seed = 1;
  bool plain = true, units = true, keeps_memory = true;
};

struct StepResult {
  double loss = 0, norm = 0;
};

struct Measured {
  std::vector<double> seconds, losses, norms;
};

// Matrices are decayed, vectors are not.
std::unique_ptr<torch::optim::AdamW> adamw(const std::vector<at::Tensor>& tensors, const std::vector<bool>& matrices) {
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const bool decayed : {true, false}) {
    std::vector<at::Tensor> group;
    for (size_t i = 0; i < tensors.size(); ++i)
      if (matrices[i] == decayed) group.push_back(tensors[i]);
    auto options = std::make_unique<torch::optim::AdamWOptions>(kLearningRate);
    options->weight_decay(decayed ? kWeightDecay : 0).betas({0.9, kBeta2});
    groups.emplace_back(std::move(group), std::move(options));
  }
  return std::make_unique<torch::optim::AdamW>(groups, torch::optim::AdamWOptions(kLearningRate));
}

class PlainRun {
 public:
  explicit PlainRun(const Settings& settings, at::ScalarType dtype)
      : network_(bench::plain_network(settings.size, settings.seed)) {
    network_->to(dtype);
    std::vector<bool> matrices;
    for (const at::Tensor& each : network_->parameters()) matrices.push_back(each.dim() > 1);
    optimizer_ = adamw(network_->parameters(), matrices);
  }
  StepResult step(const bench::WrappedBatch& batch) {
    optimizer_->zero_grad();
    const at::Tensor loss = network_->loss(batch);
    loss.backward();
    const double norm = torch::nn::utils::clip_grad_norm_(network_->parameters(), kMaxNorm);
    optimizer_->step();
    return {loss.item<double>(), norm};
  }

 private:
  std::shared_ptr<bench::LossModule> network_;
  std::unique_ptr<torch::optim::AdamW> optimizer_;
};

// BatchNorm's buffers are of its weights' type, as LibTorch wants them.
auto network_for(const Settings& settings, const Context& context) {
  auto network = bench::plain_network(settings.size, settings.seed);
  for (at::Tensor& buffer : network->buffers())
    if (buffer.is_floating_point()) buffer.set_data(buffer.to(context.arena_types().weights));
  return network;
}

class WrappedRun {
 public:
  WrappedRun(const Settings& settings, Context& context)
      : context_(context),
        network_(network_for(settings, context)),
        parameters_(shard(context, *network_,
                          {.units = settings.units ? std::vector<std::string>{"blocks.*"} : std::vector<std::string>{},
                           .buffers = Buffers::first_rank})),
        groups_(static_cast<double>(context.row_share().groups)) {
    if (settings.optimizer == "axonn") {
      own_ = make_optimizer(context, parameters_.parameters(),
                            {.learning_rate = kLearningRate, .weight_decay = kWeightDecay, .beta2 = kBeta2});
      return;
    }
    std::vector<bool> matrices;
    for (const ShardedParameter& each : parameters_.parameters().list())
      matrices.push_back(each.spec().dims.size() > 1);
    torch_ = adamw(parameters_.local(), matrices);
  }
  StepResult step(const bench::WrappedBatch& batch) {
    auto open = context_.begin_step();
    const at::Tensor loss = network_->loss(batch);
    (loss / groups_).backward();
    open.finish();
    if (own_ != nullptr) return {loss.item<double>(), own_->step({.max_norm = kMaxNorm}).gradient_norm};
    const double norm = clip_grad_norm_(parameters_, kMaxNorm);
    torch_->step();
    return {loss.item<double>(), norm};
  }

  // The bytes that the last step moved, and those that this rank holds.
  nlohmann::json counts() const {
    nlohmann::json counts;
    for (size_t kind = 0; kind < kTrafficNames.size(); ++kind) {
      const TrafficSum& sum = context_.scheduler().traffic().sums()[kind];
      counts["collectives"][kTrafficNames[kind]] = {
          {"calls", sum.collectives}, {"bytes", sum.bytes}, {"waited", sum.exposed_seconds}};
    }
    const Arena& arena = parameters_.parameters().arena();
    int64_t state = 0;
    if (torch_ != nullptr)
      for (const auto& [parameter, of] : torch_->state()) {
        const auto& kept = dynamic_cast<const torch::optim::AdamWParamState&>(*of);
        state += static_cast<int64_t>(kept.exp_avg().nbytes() + kept.exp_avg_sq().nbytes());
      }
    counts["bytes"] = {{"weights", arena.weights().nbytes()},
                       {"gradients", arena.gradients().nbytes()},
                       {"master", arena.master().is_same(arena.weights()) ? 0 : arena.master().nbytes()},
                       {"state", state}};
    counts["allocations"] = context_.scheduler().pool().allocations();
    return counts;
  }

 private:
  Context& context_;
  std::shared_ptr<bench::LossModule> network_;
  WrappedModule parameters_;
  double groups_;
  std::unique_ptr<Optimizer> own_;
  std::unique_ptr<torch::optim::AdamW> torch_;
};

// Bytes of this process, from /proc/self/status: "VmRSS" now, "VmHWM" at most since reset_peak().
int64_t resident(const std::string& what) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(what + ":")) return std::stoll(line.substr(what.size() + 1)) * 1024;
  return 0;
}
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

template <typename Run>
void measure(Environment& environment, Run& run, const bench::WrappedBatch& batch, Measured& into) {
  environment.world().barrier().wait();
  const auto start = std::chrono::steady_clock::now();
  const auto [loss, norm] = run.step(batch);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const at::Tensor slowest = at::scalar_tensor(seconds, at::kDouble), mean = at::scalar_tensor(loss, at::kDouble);
  environment.world().all_reduce(slowest, ReduceOp::max).wait();
  environment.world().all_reduce(mean).wait();
  into.seconds.push_back(slowest.item<double>());
  into.losses.push_back(mean.item<double>() / environment.ranks());
  into.norms.push_back(norm);
}

nlohmann::json to_json(const Measured& measured) {
  return {{"seconds", measured.seconds}, {"losses", measured.losses}, {"gradient_norms", measured.norms}};
}

void compare(const Settings& settings) {
  Environment environment;
  const at::ScalarType dtype = settings.dtype == "bf16" ? at::kBFloat16 : at::kFloat;
  Context context(environment, parse_grid_shape(settings.grid), {.dtype = dtype});
  WrappedRun wrapped(settings, context);
  std::unique_ptr<PlainRun> plain;
  if (settings.plain) plain = std::make_unique<PlainRun>(settings, dtype);
  const RowShare share = context.row_share();
  bench::WrappedBatches batches(settings.size, settings.file, settings.seed, share.mine, share.groups);
  Measured of_plain, of_wrapped;
  reset_peak();
  const int64_t before = resident("VmRSS");
  for (int i = 0; i < settings.warmup + settings.steps; ++i) {
    const bench::WrappedBatch batch = batches.next();
    const bool first = i % 2 == 0;  // the order alternates
    if (plain != nullptr && first) measure(environment, *plain, batch, of_plain);
    measure(environment, wrapped, batch, of_wrapped);
    if (plain != nullptr && !first) measure(environment, *plain, batch, of_plain);
  }
  nlohmann::json line = {{"wrapped", to_json(of_wrapped)}, {"counts", wrapped.counts()}};
  line["counts"]["bytes"]["growth"] = resident("VmHWM") - before;
  if (plain != nullptr) line["plain"] = to_json(of_plain);
  if (environment.rank() == 0) std::printf("%s\n", line.dump().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  int threads = 1;
  CLI::App app("A plain torch::nn module and the same module under axonn::shard(), in turn");
  app.set_help_flag("-h,--help", "print this text");
  app.add_option("--network", settings.size.network, "gpt or resnet")->check(CLI::IsMember({"gpt", "resnet"}));
  app.add_option("--layers", settings.size.layers, "of gpt");
  app.add_option("--hidden", settings.size.hidden, "of gpt");
  app.add_option("--heads", settings.size.heads, "of gpt");
  app.add_option("--sequence", settings.size.sequence, "of gpt");
  app.add_option("--image", settings.size.image, "pixels along one side, of resnet");
  app.add_option("--base", settings.size.base, "channels of resnet's first blocks");
  app.add_option("--blocks", settings.size.blocks, "of each width of resnet");
  app.add_option("--multipliers", settings.size.multipliers, "channels of each width of resnet over --base");
  app.add_option("--batch", settings.size.batch, "rows of all ranks");
  app.add_option("--data", settings.file, "file whose bytes gpt learns")->check(CLI::ExistingFile);
  app.add_option("--grid", settings.grid, "X x Y x Z x data");
  app.add_option("--dtype", settings.dtype, "fp32 or bf16")->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--optimizer", settings.optimizer, "torch::optim::AdamW, or axonn's, of the wrapped module")
      ->check(CLI::IsMember({"torch", "axonn"}));
  app.add_option("--steps", settings.steps, "measured steps");
  app.add_option("--warmup", settings.warmup, "steps before");
  app.add_option("--seed", settings.seed, "of weights and samples");
  app.add_option("--threads", threads, "compute threads of each rank");
  app.add_flag("!--no-plain", settings.plain, "leave the plain module out");
  app.add_flag("!--no-kept-memory", settings.keeps_memory, "without keep_freed_memory()");
  app.add_flag("!--no-units", settings.units, "the whole module is one unit");
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(threads);
  if (settings.keeps_memory) keep_freed_memory();
  try {
    AXONN_CHECK(settings.size.network != "gpt" || !settings.file.empty(), "wrapped", "gpt needs --data FILE");
    compare(settings);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "wrapped: %s\n", error.what());
    return 1;
  }
  return 0;
}
