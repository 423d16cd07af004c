#include "overlap_schedules.hpp"

#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include "axonn/core/median.hpp"
#include "axonn/core/text.hpp"
#include "axonn/optim/make_optimizer.hpp"
#include "axonn/train/passes.hpp"
#include "overlap_network.hpp"

namespace axonn::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kSteps = 3;  // per turn

// A network in training under one policy and schedule.
class Training {
 public:
  Training(Environment& environment, const OverlapOptions& options, const OverlapPolicy& policy,
           UpdateSchedule schedule)
      : context_(environment, parse_grid_shape(options.grid),
                 {.dtype = options.bf16 ? at::kBFloat16 : at::kFloat, .overlap = policy}),
        network_(options.network == "gpt" ? overlap_gpt(context_, options.gpt) : overlap_unet(context_, options.unet)),
        parameters_(context_.materialize(*network_.model, 1)),
        optimizer_(make_optimizer(context_, parameters_, {.schedule = schedule, .learning_rate = 3e-4})),
        plan_(plan_micro_batches(options.batch, options.micro_batches, context_.shape(), context_.at())) {
    for (int i = 0; i < 3; ++i) step();  // learns the order of gathers, fills the buffer pools
  }

  // The seconds per step of one turn on the slowest rank. The step before the clock starts leaves a
  // gather under way, and so does the last one: each step hides one.
  void take_turn() {
    everybody().barrier().wait();
    step();
    const auto start = Clock::now();
    for (int i = 0; i < kSteps; ++i) step();
    seconds_.push_back(greatest(std::chrono::duration<double>(Clock::now() - start).count() / kSteps));
    parameters_.schedule().wait_for_weights();
    everybody().barrier().wait();
  }

  double seconds() const { return median(seconds_); }
  const Parameters& parameters() const { return parameters_; }
  // An all-reduce of all gradients by itself.
  double transfer() {
    const at::Tensor gradients = at::zeros_like(parameters_.arena().gradients());
    std::vector<double> times;
    for (int i = 0; i < 5; ++i) {
      everybody().barrier().wait();
      const auto start = Clock::now();
      everybody().all_reduce(gradients).wait();
      times.push_back(greatest(std::chrono::duration<double>(Clock::now() - start).count()));
    }
    return median(times);
  }

 private:
  void step() {
    optimizer_->prepare();
    run_passes(context_, *network_.task, plan_, 0);
    optimizer_->step({.max_norm = 1});
  }
  double greatest(double mine) {
    const at::Tensor value = at::scalar_tensor(mine, at::kDouble);
    everybody().all_reduce(value, ReduceOp::max).wait();
    return value.item<double>();
  }
  Communicator& everybody() { return context_.communicators()[AxisSet::all()]; }

  Context context_;
  VerifiedNetwork network_;
  Parameters parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  BatchPlan plan_;
  std::vector<double> seconds_;
};

}  // namespace

void compare_schedules(Environment& environment, const OverlapOptions& options) {
  Training blocking(environment, options, OverlapPolicy::none(), UpdateSchedule::ar_opt);
  std::vector<std::unique_ptr<Training>> all;
  for (const auto& [name, schedule] : Names<UpdateSchedule>::all)
    all.push_back(std::make_unique<Training>(
        environment, options, OverlapPolicy{.prefetch = options.prefetch, .bucket_bytes = 1 << 20}, schedule));
  for (int turn = 0; turn < options.repetitions; ++turn) {
    blocking.take_turn();
    for (const auto& each : all) each->take_turn();
  }
  const double transfer = blocking.transfer(), computing = blocking.seconds() - transfer, today = all[0]->seconds();
  if (environment.rank() != 0) return;
  std::printf("# %s, %s parameters in %s on %s, clipped; medians of %d interleaved turns of %d steps\n",
              options.network.c_str(), with_unit(static_cast<double>(blocking.parameters().global_numel())).c_str(),
              options.bf16 ? "bf16" : "fp32", options.grid.c_str(), options.repetitions, kSteps);
  std::printf("# blocking: %.1f ms; an all-reduce of all gradients %.1f ms: transfer / computation %.2f\n",
              blocking.seconds() * 1e3, transfer * 1e3, transfer / computing);
  std::printf("%-12s | %9s %14s %12s\n", "schedule", "step ms", "over blocking", "over ar-opt");
  int index = 0;
  for (const auto& [name, schedule] : Names<UpdateSchedule>::all) {
    const double seconds = all[static_cast<size_t>(index++)]->seconds();
    std::printf("%-12s | %9.1f %13.2fx %11.2fx\n", std::string(name).c_str(), seconds * 1e3,
                blocking.seconds() / seconds, today / seconds);
  }
}

}  // namespace axonn::bench
