// overlap: the gain of each overlap on one model and grid: every combination of the four switches,
// with and without buckets.
//   scripts/cluster run --nodes 4 --rate 200mbit -n 4 -- build/release/bin/overlap --grid 1x1x4x1
// Or the gain of each schedule of the optimizer (overlap_schedules.hpp): --grid 1x1x1x4 --schedules
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <exception>
#include <map>
#include <vector>

#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <CLI/CLI.hpp>
#include <sys/resource.h>

#include "axonn/comm/environment.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/median.hpp"
#include "axonn/core/text.hpp"
#include "axonn/optim/make_optimizer.hpp"
#include "axonn/train/passes.hpp"
#include "overlap_ideal.hpp"
#include "overlap_network.hpp"
#include "overlap_options.hpp"
#include "overlap_schedules.hpp"

namespace {

using namespace axonn;
using namespace axonn::bench;
using Clock = std::chrono::steady_clock;
using Options = OverlapOptions;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Duration of a collective when nothing else runs, measured once for every kind, group and size.
class Alone {
 public:
  explicit Alone(Context& context) : context_(context) {}

  void measure(const std::vector<RequestRecord>& records) {
    for (const RequestRecord& record : records)
      if (const auto [known, added] = seconds_.try_emplace(key(record)); added) known->second = measure(record);
  }
  double operator()(const RequestRecord& record) const { return seconds_.at(key(record)); }

 private:
  using Key = std::tuple<Traffic, uint8_t, int64_t>;
  static Key key(const RequestRecord& record) { return {record.kind, record.axes.bits(), record.bytes}; }

  double measure(const RequestRecord& record) {
    Communicator& group = context_.communicators()[record.axes];
    const int64_t part = std::max<int64_t>(1, record.bytes / 4 / group.size());
    const at::Tensor whole = at::zeros({part * group.size()}, at::kFloat), mine = at::zeros({part}, at::kFloat);
    std::vector<double> times;
    for (int i = 0; i < 5; ++i) {
      context_.communicators()[AxisSet::all()].barrier().wait();
      const auto start = Clock::now();
      if (record.kind == Traffic::all_gather || record.kind == Traffic::update)
        group.all_gather(mine, whole).wait();
      else if (record.kind == Traffic::reduce_scatter)
        group.reduce_scatter(whole, mine).wait();
      else
        group.all_reduce(whole).wait();
      times.push_back(seconds_since(start));
    }
    const at::Tensor slowest = at::scalar_tensor(median(times), at::kDouble);
    context_.communicators()[AxisSet::all()].all_reduce(slowest, ReduceOp::max).wait();
    return slowest.item<double>();
  }

  Context& context_;
  std::map<Key, double> seconds_;
};

// Measurements of one policy's steps; the same on every rank.
struct Samples {
  OverlapPolicy policy;
  std::vector<double> seconds, exposed, ideal;
  int64_t collectives = 0;  // collectives per step
  double alone = 0;         // seconds, sum over all collectives of a step
};

// One model for all policies, which take turns. The computation and communication of a step do not
// depend on its weights.
class Runner {
 public:
  Runner(Environment& environment, const Options& options)
      : context_(environment, parse_grid_shape(options.grid)),
        network_(options.network == "gpt" ? overlap_gpt(context_, options.gpt) : overlap_unet(context_, options.unet)),
        parameters_(context_.materialize(*network_.model, 1)),
        optimizer_(make_optimizer(context_, parameters_, {.schedule = UpdateSchedule::ar_opt, .learning_rate = 3e-4})),
        alone_(context_) {
    plan_ = plan_micro_batches(options.batch, options.micro_batches, context_.shape(), context_.at());
  }

  // Learns the order of gathers.
  void learn() {
    for (int i = 0; i < 2; ++i) step();
  }

  // An unmeasured step fills the buffer pools and finds the collectives of a step.
  void warm_up(Samples& samples) {
    context_.set_overlap(samples.policy);
    step();
    alone_.measure(traffic().records());
    for (const RequestRecord& record : traffic().records()) samples.alone += alone_(record);
    samples.collectives = static_cast<int64_t>(traffic().records().size());
  }

  void sample(Samples& samples) {
    context_.set_overlap(samples.policy);
    everybody().barrier().wait();
    const auto start = Clock::now();
    step();
    samples.seconds.push_back(greatest(seconds_since(start)));
    samples.exposed.push_back(greatest(traffic().waited_seconds()));
    const double update = samples.seconds.back() - std::chrono::duration<double>(end_ - begin_).count();
    samples.ideal.push_back(greatest(
        ideal_seconds(traffic().records(), begin_, end_, [&](const RequestRecord& record) { return alone_(record); }) +
        std::max(0.0, update)));
    AXONN_ASSERT(static_cast<int64_t>(traffic().records().size()) == samples.collectives,
                 "a policy's step took another number of collectives than its first");
  }

  double greatest(double mine) { return over_all(mine, ReduceOp::max); }
  double sum(double mine) { return over_all(mine, ReduceOp::sum); }
  const Parameters& parameters() const { return parameters_; }

 private:
  void step() {
    begin_ = Clock::now();
    run_passes(context_, *network_.task, plan_, 0);
    end_ = Clock::now();
    optimizer_->step({.max_norm = 1});
  }

  double over_all(double mine, ReduceOp op) {
    const at::Tensor value = at::scalar_tensor(mine, at::kDouble);
    everybody().all_reduce(value, op).wait();
    return value.item<double>();
  }

  Communicator& everybody() { return context_.communicators()[AxisSet::all()]; }
  const TrafficLog& traffic() { return context_.scheduler().traffic(); }

  Context context_;
  VerifiedNetwork network_;
  Parameters parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  Alone alone_;
  BatchPlan plan_;
  Clock::time_point begin_, end_;
};

double peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

std::vector<Samples> policies(const Options& options) {
  std::vector<Samples> all;
  for (unsigned bits = 0; bits < kSwitchCombinations<OverlapSwitches>; ++bits) {
    const OverlapSwitches switches = switches_of<OverlapSwitches>(bits);
    OverlapSwitches with_buckets = switches;
    with_buckets.buckets = true;
    const bool shown = !options.few || std::popcount(bits) <= 1 || with_buckets == OverlapSwitches();
    if (shown) all.push_back({.policy = {.switches = switches, .prefetch = options.prefetch, .bucket_bytes = 1 << 20}});
  }
  return all;
}

void print(const Options& options, const Runner& runner, const std::vector<Samples>& every) {
  const Samples& none = every.front();
  const double blocking = median(none.seconds), computing = blocking - median(none.exposed);
  std::printf(
      "# axonn overlap: %s, %s parameters on %s, batch %lld in %lld micro-batches; medians of %d interleaved steps\n",
      options.network.c_str(), with_unit(static_cast<double>(runner.parameters().global_numel())).c_str(),
      options.grid.c_str(), static_cast<long long>(options.batch), static_cast<long long>(options.micro_batches),
      options.repetitions);
  std::printf(
      "# blocking: %.1f ms, of which %.1f ms computing; its collectives by themselves take %.1f ms: transfer / "
      "computation %.2f\n",
      blocking * 1e3, computing * 1e3, none.alone * 1e3, none.alone / computing);
  std::printf("# gain: less time than blocking; ideal: longest path with infinite queues / time\n");
  std::printf("%-60s | %11s %9s %11s %6s %6s\n", "overlap", "collectives", "step ms", "exposed ms", "gain", "ideal");
  for (const Samples& samples : every) {
    const double time = median(samples.seconds);
    std::printf("%-60s | %11lld %9.1f %11.1f %5.0f%% %5.0f%%\n", to_string(samples.policy.switches).c_str(),
                static_cast<long long>(samples.collectives), time * 1e3, median(samples.exposed) * 1e3,
                100 * (1 - time / blocking), 100 * median(samples.ideal) / time);
  }
}

void run(const Options& options) {
  Environment environment;
  AXONN_CHECK(environment.ranks() > 1, "bench.overlap",
              "needs at least 2 ranks; start it with scripts/mpirun or scripts/cluster run");
  if (options.schedules) return compare_schedules(environment, options);
  std::vector<Samples> every = policies(options);
  Runner runner(environment, options);
  runner.learn();
  for (Samples& samples : every) runner.warm_up(samples);
  for (int repetition = 0; repetition < options.repetitions; ++repetition)
    for (Samples& samples : every) runner.sample(samples);
  const double largest = runner.greatest(peak_bytes()), total = runner.sum(peak_bytes());
  if (environment.rank() != 0) return;
  print(options, runner, every);
  std::printf("# peak memory: %s in the largest rank, %s in all %d\n", bytes_text(largest).c_str(),
              bytes_text(total).c_str(), environment.ranks());
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("the gain of each overlap");
  app.add_option("--grid", options.grid, "x, y, z and data ranks, such as 2x1x2x1");
  app.add_option("--network", options.network, "gpt or unet")->check(CLI::IsMember({"gpt", "unet"}));
  app.add_option("--layers", options.gpt.shape.layers, "blocks")->group("gpt");
  app.add_option("--hidden", options.gpt.shape.hidden, "features")->group("gpt");
  app.add_option("--heads", options.gpt.shape.heads, "attention heads")->group("gpt");
  app.add_option("--sequence", options.gpt.shape.sequence, "tokens")->group("gpt");
  app.add_option("--vocab", options.gpt.shape.vocabulary, "vocabulary")->group("gpt");
  app.add_option("--image", options.unet.shape.image, "height and width of an image")->group("unet");
  app.add_option("--base", options.unet.shape.base, "channels of the first level")->group("unet");
  app.add_option("--multipliers", options.unet.shape.multipliers, "multiples of base, one per level")->group("unet");
  app.add_option("--blocks", options.unet.shape.blocks, "residual blocks per level")->group("unet");
  app.add_option("--attention", options.unet.shape.attention, "heights with attention")->group("unet");
  app.add_option("--batch", options.batch, "sequences or images per step, over the whole grid");
  app.add_option("--micro-batches", options.micro_batches, "forward passes per step");
  app.add_option("--activation-checkpoint", options.checkpoint_every, "recompute every n-th block");
  app.add_option("--prefetch", options.prefetch, "number of weights gathered before their use");
  app.add_option("--repetitions", options.repetitions, "repetitions of every policy");
  app.add_flag("--few", options.few, "only no overlap, each overlap by itself, and all");
  app.add_flag("--schedules", options.schedules, "compare the schedules of the optimizer, all with every overlap");
  app.add_flag("--bf16", options.bf16, "with --schedules: bf16 weights and activations, gradients in fp32");
  CLI11_PARSE(app, argc, argv);
  options.gpt.checkpoint_every = options.unet.checkpoint_every = options.checkpoint_every;
  try {
    run(options);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "overlap: %s\n", error.what());
    return 1;
  }
}
