#include "train/step/train_step.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string_view>
#include <utility>

#include "axonn/core/error.hpp"
#include "train/report/step_timer.hpp"

namespace axonn {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

TrainStep::TrainStep(const TrainedNetwork& network, const TrainConfig& config, const RunIdentity& identity,
                     Communicator& everyone, Saver& saver)
    : network_(network),
      config_(config),
      saver_(saver),
      refused_(network, config, identity, everyone, saver),
      ahead_(network.context.options().device.is_cuda() && network.optimizer.runs_ahead() &&
             network.context.options().dtype != at::kHalf && config.spikes.action == OnSpike::off) {
  const Context& context = network.context;
  const GridShape& shape = context.shape();
  const int64_t ranks = context.options().forward.context;
  plan_ = plan_batch(config.batch, config.rows(shape, ranks), shape, context.at(), ranks);
  if (!config.cuda_graph) return;
  check_cuda_graph(config, shape, context.options());
  AXONN_CHECK(network.task.host_work().empty(), "train.train",
              "--cuda-graph needs a step in which the host does nothing; leave --", network.task.host_work(),
              " out, or --cuda-graph");
}

TrainStep::Taken TrainStep::take(int64_t step, Trace& trace) {
  const auto start = Clock::now();
  const TrainTask& task = network_.task;
  StepMetrics metrics{.step = step + 1,
                      .tokens = (step + 1) * plan_.batch * task.tokens_per_sample(),
                      .epoch = task.epochs((step + 1 + refused_.left_out()) * plan_.batch),
                      .learning_rate = config_.learning_rate().at(step),
                      .terms = task.words().terms};
  double copying = 0;
  if (config_.cuda_graph && taken_++ >= GraphedStep::kStepsBefore) {
    copy_for_save(trace, copying, /*changes_follow=*/true);
    return take_graph(std::move(metrics), start, copying);
  }
  const PassLosses losses = pass(metrics, trace, copying);
  copy_for_save(trace, copying, /*changes_follow=*/true);
  const UpdateReport report = update(metrics, losses, trace);
  metrics.seconds.checkpoint = copying;
  if (ahead_) return taken_ahead(std::move(metrics), start, losses, report.norm);
  const std::optional<int64_t> back_to = refused_.settle(metrics, report, losses);
  if (!back_to) network_.task.after_step();
  metrics.seconds.step = seconds_between(start, Clock::now()) - copying;
  set_speeds(metrics);
  return {.metrics = std::move(metrics), .start = start, .back_to = back_to, .unread = {}};
}

TrainStep::Taken TrainStep::take_graph(StepMetrics metrics, Clock::time_point start, double copying) {
  if (!graphed_)
    graphed_.emplace(network_, plan_,
                     GraphedStep::Settings{.seed = static_cast<uint64_t>(config_.seed), .clip = config_.clip},
                     make_cuda_graph());
  const GraphedStep::Numbers& numbers = graphed_->take(metrics.step - 1, metrics.learning_rate);
  describe(metrics);
  metrics.seconds.checkpoint = copying;
  return taken_ahead(std::move(metrics), start, numbers.losses, numbers.norm);
}

TrainStep::Taken TrainStep::taken_ahead(StepMetrics metrics, Clock::time_point start, const PassLosses& losses,
                                        const at::Tensor& norm) {
  network_.task.after_step();
  return {.metrics = std::move(metrics),
          .start = start,
          .back_to = {},
          .unread = DeviceNumbers({losses.means, losses.sums, norm})};
}

void TrainStep::read(Taken& taken) {
  const std::vector<at::Tensor>& numbers = taken.unread->read();
  network_.environment.check_running();
  StepMetrics& metrics = taken.metrics;
  metrics.loss = PassLosses{numbers[0], numbers[1]}.loss();
  metrics.gradient_norm = numbers[2].item<double>();
  if (!std::isfinite(*metrics.gradient_norm)) refused_.refuse_loss(metrics.step, numbers[1].to(at::kDouble));
  const auto now = Clock::now();
  metrics.seconds.step = seconds_between(std::max(taken.start, std::exchange(last_read_, now)), now);
  set_speeds(metrics);
  taken.unread.reset();
}

void TrainStep::set_speeds(StepMetrics& metrics) const {
  const TrainTask& task = network_.task;
  const auto samples = static_cast<double>(plan_.batch);
  metrics.tokens_per_second = static_cast<double>(plan_.batch * task.tokens_per_sample()) / metrics.seconds.step;
  metrics.model_flops_per_second = samples * task.flops_per_sample() / metrics.seconds.step;
  metrics.paper_flops_per_second = samples * task.paper_flops_per_sample() / metrics.seconds.step;
}

PassLosses TrainStep::pass(StepMetrics& metrics, Trace& trace, double& copying) {
  const auto on_pass = [&](const char* pass, Clock::time_point begin, Clock::time_point end) {
    (std::string_view(pass) == "forward" ? metrics.seconds.forward : metrics.seconds.backward) +=
        seconds_between(begin, end);
    trace.add(pass, begin, end);
    // The forward pass has waited for all weights. Without gradients, backward updates them.
    copy_for_save(trace, copying, !network_.optimizer.keeps_gradients());
  };
  network_.optimizer.prepare(metrics.learning_rate);
  PassLosses losses =
      run_passes(network_.context, network_.task, plan_, metrics.step - 1 + refused_.left_out(),
                 {.seed = static_cast<uint64_t>(config_.seed), .scale = refused_.scale(), .on_pass = on_pass});
  if (!ahead_) metrics.loss = losses.loss();
  describe(metrics);
  return losses;
}

void TrainStep::describe(StepMetrics& metrics) const {
  const Scheduler& scheduler = network_.context.scheduler();
  metrics.seconds.communication_exposed = scheduler.traffic().waited_seconds();
  metrics.communication = scheduler.traffic().sums();
  metrics.linear_products = scheduler.linear_counts();
  const UpdateChoice update = update_choice();
  metrics.optimizer_schedule = to_string(update.schedule);
  metrics.optimizer_settings = coconet::to_string(update.run);
}

UpdateReport TrainStep::update(StepMetrics& metrics, const PassLosses& losses, Trace& trace) {
  const StepTimer timer(trace, "optimizer", &metrics.seconds.optimizer);
  return network_.optimizer.step({.max_norm = config_.clip,
                                  .learning_rate = metrics.learning_rate,
                                  .gradient_scale = refused_.scale(),
                                  .accept = refused_.accept(metrics.loss),
                                  .poisoned = !std::isfinite(metrics.loss),
                                  .loss = ahead_ ? losses.means.sum() : at::Tensor()});
}

// Starts the copies of the save before this step, and ends them if weights or state change next.
void TrainStep::copy_for_save(Trace& trace, double& seconds, bool changes_follow) {
  if (!saver_.reads_tensors()) return;
  const StepTimer wait(trace, "checkpoint", &seconds);
  changes_follow ? saver_.wait_until_copied() : saver_.start_copies();
}

void TrainStep::describe(CheckpointState& state, int64_t steps) const {
  state.step = steps;
  state.seed = static_cast<uint64_t>(config_.seed);
  state.samples = (steps + refused_.left_out()) * plan_.batch;
  refused_.describe(state);
}

}  // namespace axonn
