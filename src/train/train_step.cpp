#include "train/train_step.hpp"

#include <chrono>
#include <cmath>
#include <functional>
#include <string_view>
#include <utility>

#include <ATen/ops/empty.h>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "axonn/optim/learning_rate.hpp"
#include "axonn/train/checkpoint_tensors.hpp"
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
      identity_(identity),
      everyone_(everyone),
      saver_(saver),
      guard_(config.spikes),
      ahead_(network.context.options().device.is_cuda() && network.optimizer.runs_ahead() &&
             network.context.options().dtype != at::kHalf && config.spikes.action == OnSpike::off) {
  const Context& context = network.context;
  if (context.options().dtype == at::kHalf) {
    loss_scale_.emplace(config.loss_scale);
    if (identity.loss_scale) loss_scale_->set_state(*identity.loss_scale);
  }
  AXONN_CHECK(config.spikes.action == OnSpike::off || network.optimizer.keeps_gradients(), "train.train",
              "--on-spike needs the gradient norm before weights change: give --clip, or --optimizer-schedule "
              "rs-opt-ag");
  if (identity.spikes) guard_.set_state(*identity.spikes);
  plan_ = plan_batch(config.batch, config.rows(context.shape()), context.shape(), context.at());
  if (!config.cuda_graph) return;
  check_cuda_graph(config, context.shape(), context.options());
  AXONN_CHECK(network.task.host_work().empty(), "train.train",
              "--cuda-graph needs a step in which the host does nothing; leave --", network.task.host_work(),
              " out, or --cuda-graph");
}

TrainStep::Taken TrainStep::take(int64_t step, Trace& trace) {
  const auto start = Clock::now();
  const LearningRate rate{.peak = config_.optimizer.learning_rate,
                          .end = config_.learning_rate_end,
                          .warmup = config_.warmup,
                          .steps = config_.steps};
  StepMetrics metrics{.step = step + 1, .learning_rate = rate.at(step), .terms = network_.task.words().terms};
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
  const std::optional<int64_t> back_to = settle(metrics, report, losses);
  metrics.seconds.step = seconds_between(start, Clock::now()) - copying;
  set_speeds(metrics);
  return {std::move(metrics), back_to, {}};
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
  if (unread_++ == 0) since_ = start;
  network_.task.after_step();
  return {std::move(metrics), {}, DeviceNumbers({losses.means, losses.sums, norm})};
}

void TrainStep::read(Taken& taken) {
  if (!taken.unread) return;
  const std::vector<at::Tensor>& numbers = taken.unread->read();
  network_.environment.check_running();
  StepMetrics& metrics = taken.metrics;
  metrics.loss = PassLosses{numbers[0], numbers[1]}.loss();
  metrics.gradient_norm = numbers[2].item<double>();
  if (!std::isfinite(*metrics.gradient_norm)) refuse_loss(metrics.step, numbers[1].to(at::kDouble));
  const auto now = Clock::now();
  metrics.seconds.step = seconds_between(std::exchange(since_, now), now);
  --unread_;
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
  PassLosses losses = run_passes(network_.context, network_.task, plan_, metrics.step - 1 + guard_.state().left_out,
                                 {.seed = static_cast<uint64_t>(config_.seed), .scale = scale(), .on_pass = on_pass});
  if (!ahead_) metrics.loss = losses.loss();
  describe(metrics);
  return losses;
}

void TrainStep::describe(StepMetrics& metrics) const {
  const Scheduler& scheduler = network_.context.scheduler();
  metrics.seconds.communication_exposed = scheduler.traffic().waited_seconds();
  metrics.communication = scheduler.traffic().sums();
  metrics.linear_products = scheduler.linear_counts();
  metrics.optimizer_schedule = update_schedule();
  metrics.optimizer_settings = coconet::to_string(config_.optimizer.run);
}

UpdateReport TrainStep::update(StepMetrics& metrics, const PassLosses& losses, Trace& trace) {
  std::function<bool(double)> accept;
  if (guard_.action() != OnSpike::off) accept = [&](double norm) { return !guard_.is_spike(metrics.loss, norm); };
  const StepTimer timer(trace, "optimizer", &metrics.seconds.optimizer);
  return network_.optimizer.step({.max_norm = config_.clip,
                                  .learning_rate = metrics.learning_rate,
                                  .gradient_scale = scale(),
                                  .accept = accept,
                                  .poisoned = !std::isfinite(metrics.loss),
                                  .loss = ahead_ ? losses.means.sum() : at::Tensor()});
}

// What an update that was made or refused changes. Returns as heed_spike().
std::optional<int64_t> TrainStep::settle(StepMetrics& metrics, const UpdateReport& report, const PassLosses& losses) {
  std::optional<int64_t> back_to;
  metrics.gradient_norm = report.gradient_norm;
  const bool overflow = loss_scale_ && !std::isfinite(report.gradient_norm);
  if (report.applied)
    guard_.accept(metrics.loss, report.gradient_norm);
  else if (!overflow && guard_.is_spike(metrics.loss, report.gradient_norm))
    back_to = heed_spike(metrics);
  else if (!(loss_scale_ && loss_scale_->skipped()))
    refuse_loss(metrics.step, losses.sums.to(at::kCPU, at::kDouble));
  if (guard_.action() != OnSpike::off) metrics.spikes = guard_.state().spikes;
  if (!back_to) network_.task.after_step();
  if (loss_scale_) {
    if (report.applied) loss_scale_->applied();
    metrics.loss_scale = loss_scale_->value();
    metrics.skipped_steps = loss_scale_->state().skipped;
  }
  return back_to;
}

// Starts the copies of the save before this step, and ends them if weights or state change next.
void TrainStep::copy_for_save(Trace& trace, double& seconds, bool changes_follow) {
  if (!saver_.reads_tensors()) return;
  const StepTimer wait(trace, "checkpoint", &seconds);
  changes_follow ? saver_.wait_until_copied() : saver_.start_copies();
}

// Called by every rank if any rank has such a loss. Nothing has been updated.
void TrainStep::refuse_loss(int64_t step, const at::Tensor& losses) {
  saver_.finish();
  const int64_t n = losses.numel();
  const at::Tensor all = at::empty({n * everyone_.size()}, at::kDouble);
  everyone_.all_gather(losses, all).wait();
  std::string where;
  for (int64_t i = 0; i < all.numel() && where.empty(); ++i)
    if (!std::isfinite(all.const_data_ptr<double>()[i]))
      where = detail::concatenate("the loss of micro-batch ", i % n, " on rank ", i / n, " (",
                                  network_.context.grid().coordinate(static_cast<int>(i / n)).to_string(), ")");
  if (where.empty()) where = "the gradient (every loss is finite)";
  const std::string scaled = loss_scale_
                                 ? detail::concatenate(" after ", loss_scale_->state().in_a_row,
                                                       " skipped ones, at a loss scale of ", loss_scale_->value())
                                 : std::string();
  const auto saved = history_in(config_.out);
  throw UserError("train.train",
                  detail::concatenate(where, " is not finite in step ", step, scaled, ", which has changed nothing; ",
                                      saved.empty() ? std::string("no checkpoint has been written")
                                                    : "newest checkpoint: " + saved.back().directory.string()));
}

// Called by every rank. Nothing has been updated. Returns the step that it has gone back to.
std::optional<int64_t> TrainStep::heed_spike(const StepMetrics& metrics) {
  const std::string what = detail::concatenate("step ", metrics.step,
                                               " is a spike: ", guard_.compared(metrics.loss, *metrics.gradient_norm));
  if (guard_.action() == OnSpike::rollback) saver_.finish();
  const std::string checkpoint = saver_.newest().empty() ? identity_.checkpoint : saver_.newest();
  std::optional<int64_t> back_to;
  if (guard_.action() == OnSpike::rollback && !checkpoint.empty()) {
    back_to = roll_back(checkpoint, metrics.step);
  } else {
    AXONN_CHECK(guard_.skip(), "train.train", what, ", after ", SpikeGuard::kMostInARow,
                " others in a row; choose a lower learning rate or a higher --spike-factor");
  }
  if (network_.context.rank() != 0) return back_to;
  if (back_to)
    log::warn(what, "; back to ", checkpoint, ", and on with the batch after it");
  else
    log::warn(what, "; its update is skipped",
              guard_.action() == OnSpike::rollback ? ", as there is no checkpoint yet" : "");
  return back_to;
}

// The step that follows is the one after the checkpoint, with the batch that follows now.
int64_t TrainStep::roll_back(const std::string& checkpoint, int64_t step) {
  const int64_t next = step + guard_.state().left_out;
  const Context& context = network_.context;
  CheckpointState state;
  all_ranks_or_none(everyone_, [&] {
    const CheckpointReader reader(checkpoint);
    reader.load(context.shape(), context.at(),
                checkpoint_tensors(network_.parameters, &network_.optimizer, &network_.task));
    state = reader.state();
  });
  network_.optimizer.state_changed();
  network_.optimizer.set_steps_taken(state.updates());
  if (loss_scale_ && state.loss_scale) loss_scale_->set_state(*state.loss_scale);
  guard_.roll_back(state.spikes.value_or(SpikeGuard::State{}), state.step, next);
  rollbacks_ = std::exchange(rolled_back_to_, state.step) == state.step ? rollbacks_ + 1 : 1;
  AXONN_CHECK(rollbacks_ <= SpikeGuard::kMostInARow, "train.train", checkpoint, " was rolled back to ",
              SpikeGuard::kMostInARow, " times; choose a lower learning rate or a higher --spike-factor");
  return state.step;
}

void TrainStep::describe(CheckpointState& state, int64_t steps) const {
  state.step = steps;
  state.seed = static_cast<uint64_t>(config_.seed);
  state.samples = (steps + guard_.state().left_out) * plan_.batch;
  if (loss_scale_) state.loss_scale = loss_scale_->state();
  if (guard_.matters()) state.spikes = guard_.state();
}

}  // namespace axonn
