#include "axonn/train/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <limits>
#include <utility>

#include <sys/resource.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/crash_report.hpp"
#include "axonn/core/env.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "axonn/core/text.hpp"
#include "axonn/optim/learning_rate.hpp"
#include "axonn/train/checkpoint_tensors.hpp"
#include "axonn/train/passes.hpp"
#include "axonn/train/replicas.hpp"
#include "axonn/train/report/gemm_peak.hpp"
#include "axonn/train/report/metrics.hpp"
#include "axonn/train/report/progress.hpp"
#include "axonn/train/report/trace.hpp"
#include "train/report/device_memory.hpp"
#include "train/report/run_status.hpp"
#include "train/report/stragglers.hpp"
#include "train/saver.hpp"

namespace axonn {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kLeastCopies = int64_t{1} << 20;  // with less, system calls take longer than the disk

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

int64_t peak_memory_bytes(c10::Device device) {
  if (device.is_cuda()) return peak_cuda_bytes(device);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

// "overlap", or what auto is on this grid: "auto (over x: overlap from 256k, else mm-ar-c)".
// Collective: it may make communicators.
std::string linear_schedules(Context& context) {
  const LinearSchedule given = context.options().linear_schedule;
  std::string text(to_string(given));
  if (given != LinearSchedule::automatic) return text;
  std::string axes;
  for (const Axis axis : {Axis::x, Axis::y})
    if (context.shape()[axis] > 1 &&
        context.scheduler().resolve(given, axis, kSmallestOverlapped) == LinearSchedule::overlap)
      axes.append(axes.empty() ? "" : " and ").append(to_string(axis));
  return text + (axes.empty() ? " (mm-ar-c)"
                              : " (over " + axes + ": overlap from " + binary_count_text(kSmallestOverlapped) +
                                    ", else mm-ar-c)");
}

// mpirun gives each rank a terminal as standard output, even when mpirun's own output goes to a
// file. AXONN_PROGRESS then gives the right mode.
Progress::Options progress_options(const TrainConfig& config, int64_t first_step) {
  auto options = Progress::for_descriptor(1, config.steps, first_step, config.log_every);
  options.most_seconds = config.minutes * 60;
  if (const auto wanted = env::get("AXONN_PROGRESS")) {
    AXONN_CHECK(*wanted == "bar" || *wanted == "lines", "train.progress", "AXONN_PROGRESS must be bar or lines, got '",
                *wanted, "'");
    options.terminal = *wanted == "bar";
  }
  return options;
}

// Adds its lifetime to a part of the step, unless `seconds` is null, and shows it in the trace.
class StepTimer {
 public:
  StepTimer(Trace& trace, const char* name, double* seconds) : trace_(trace), name_(name), seconds_(seconds) {}
  ~StepTimer() {
    if (seconds_ != nullptr) *seconds_ += seconds_since(begin_);
    trace_.add(name_, begin_, Clock::now());
  }
  StepTimer(const StepTimer&) = delete;
  StepTimer& operator=(const StepTimer&) = delete;

 private:
  Trace& trace_;
  const char* name_;
  double* seconds_;
  Clock::time_point begin_ = Clock::now();
};

// The task asks `stop` during its lifetime.
class StoppableTask {
 public:
  StoppableTask(TrainTask& task, std::function<bool()> stop) : task_(task) { task_.set_stop(std::move(stop)); }
  ~StoppableTask() { task_.set_stop({}); }
  StoppableTask(const StoppableTask&) = delete;
  StoppableTask& operator=(const StoppableTask&) = delete;

 private:
  TrainTask& task_;
};

// One line for status.json.
std::string reason_of(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  const std::string text = ours != nullptr ? ours->sentence() : error.what();
  return text.substr(0, text.find('\n'));
}

class Trainer {
 public:
  Trainer(const TrainedNetwork& network, const TrainConfig& config, const RunIdentity& identity,
          const std::function<bool()>& stop)
      : environment_(network.environment),
        context_(network.context),
        parameters_(network.parameters),
        optimizer_(network.optimizer),
        task_(network.task),
        config_(config),
        identity_(identity),
        stop_(stop),
        everyone_(context_.communicators().on_cpu(AxisSet::all())),
        stragglers_(everyone_),
        writer_(context_.grid(), context_.rank(),
                {.directory = config.out,
                 .keep = static_cast<int>(std::min<int64_t>(config.keep, std::numeric_limits<int>::max())),
                 .barrier = [this] { everyone_.barrier().wait(); }}),
        saver_(writer_, everyone_,
               {.behind = config.save_async && context_.options().device.is_cpu(),
                .memory = config.save_memory,
                .local_ranks = environment_.local_ranks(),
                .wait_for_tensors = [this] { parameters_.schedule().wait_for_weights(); }}),
        tensors_(checkpoint_tensors(parameters_, &optimizer_)),
        guard_(config.spikes) {
    check_train(config);
    if (context_.options().dtype == at::kHalf) {
      loss_scale_.emplace(config.loss_scale);
      if (identity.loss_scale) loss_scale_->set_state(*identity.loss_scale);
    }
    AXONN_CHECK(config.spikes.action == OnSpike::off || optimizer_.keeps_gradients(), "train.train",
                "--on-spike needs the gradient norm before weights change: give --clip, or --optimizer-schedule "
                "rs-opt-ag");
    if (identity.spikes) guard_.set_state(*identity.spikes);
    plan_ = plan_batch(config.batch, config.rows(context_.shape()), context_.shape(), context_.at());
  }

  TrainResult run(int64_t first_step);

 private:
  bool lead() const { return context_.rank() == 0; }
  struct Event {
    const char* name;
    int64_t every;  // steps; 0: never
    bool at_end = false;
    double* seconds = nullptr;
    std::function<void()> action;
  };
  std::vector<Event> events(StepMetrics& metrics);
  bool act(const Event& event, bool last, Trace& trace);
  void begin(int64_t first_step);
  void take_steps(int64_t first_step);
  void end();
  void tell(const StepMetrics& metrics, double seconds);
  StepMetrics one_step(int64_t step, Trace& trace);
  double scale() const { return loss_scale_ ? loss_scale_->value() : 1; }
  void refuse_loss(int64_t step, const at::Tensor& losses);
  void heed_spike(const StepMetrics& metrics);
  void roll_back(const std::string& checkpoint);
  void save(int64_t steps_done);
  void copy_for_save(Trace& trace, double& seconds, bool changes_follow);
  void share(StepMetrics& metrics, bool out_of_time);
  bool ask_to_stop();
  void announce(const std::string& linear) const;

  Environment& environment_;
  Context& context_;
  const Parameters& parameters_;
  Optimizer& optimizer_;
  TrainTask& task_;
  const TrainConfig& config_;
  const RunIdentity& identity_;
  const std::function<bool()>& stop_;
  Communicator& everyone_;
  Stragglers stragglers_;
  CheckpointWriter writer_;
  Saver saver_;
  const std::vector<CheckpointTensor> tensors_;  // weights and optimizer state
  BatchPlan plan_;
  std::optional<LossScale> loss_scale_;  // with fp16
  SpikeGuard guard_;
  bool rolled_back_ = false;  // instead of the last step
  int64_t rollbacks_ = 0;     // to the checkpoint of step `rolled_back_to_`
  int64_t rolled_back_to_ = -1;
  double gemm_flops_ = 0;      // sum over all ranks
  double saving_seconds_ = 0;  // the save after the last step took so many
  bool stopped_ = false;       // some rank was asked to, and all know it
  bool out_of_time_ = false;
  TrainResult result_;
  std::optional<RunStatus> status_;            // only on rank 0
  std::optional<MetricsWriter> metrics_file_;  // only on rank 0
  std::optional<Progress> progress_;
};

StepMetrics Trainer::one_step(int64_t step, Trace& trace) {
  const auto start = Clock::now();
  const LearningRate rate{.peak = config_.optimizer.learning_rate,
                          .end = config_.learning_rate_end,
                          .warmup = config_.warmup,
                          .steps = config_.steps};
  StepMetrics metrics{.step = step + 1, .learning_rate = rate.at(step), .terms = task_.words().terms};
  metrics.seconds.checkpoint = std::exchange(saving_seconds_, 0);
  double copying = 0;
  const auto on_pass = [&](const char* pass, Clock::time_point begin, Clock::time_point end) {
    (std::string_view(pass) == "forward" ? metrics.seconds.forward : metrics.seconds.backward) +=
        std::chrono::duration<double>(end - begin).count();
    trace.add(pass, begin, end);
    // The forward pass has waited for all weights. Without gradients, backward updates them.
    copy_for_save(trace, copying, !optimizer_.keeps_gradients());
  };
  optimizer_.prepare(metrics.learning_rate);
  const PassLosses losses =
      run_passes(context_, task_, plan_, step + guard_.state().left_out,
                 {.seed = static_cast<uint64_t>(config_.seed), .scale = scale(), .on_pass = on_pass});
  metrics.loss = losses.loss();
  metrics.seconds.communication_exposed = context_.scheduler().traffic().waited_seconds();
  metrics.communication = context_.scheduler().traffic().sums();
  metrics.linear_products = context_.scheduler().linear_counts();

  copy_for_save(trace, copying, /*changes_follow=*/true);
  std::function<bool(double)> accept;
  if (guard_.action() != OnSpike::off) accept = [&](double norm) { return !guard_.is_spike(metrics.loss, norm); };
  UpdateReport report;
  {
    const StepTimer update(trace, "optimizer", &metrics.seconds.optimizer);
    report = optimizer_.step({.max_norm = config_.clip,
                              .learning_rate = metrics.learning_rate,
                              .gradient_scale = scale(),
                              .accept = accept,
                              .poisoned = !std::isfinite(metrics.loss)});
  }
  metrics.gradient_norm = report.gradient_norm;
  const bool overflow = loss_scale_ && !std::isfinite(report.gradient_norm);
  if (report.applied)
    guard_.accept(metrics.loss, report.gradient_norm);
  else if (!overflow && guard_.is_spike(metrics.loss, report.gradient_norm))
    heed_spike(metrics);
  else if (!(loss_scale_ && loss_scale_->skipped()))
    refuse_loss(step, losses.sums.to(at::kCPU, at::kDouble));
  if (guard_.action() != OnSpike::off) metrics.spikes = guard_.state().spikes;
  if (!rolled_back_) task_.after_step();
  if (loss_scale_) {
    if (report.applied) loss_scale_->applied();
    metrics.loss_scale = loss_scale_->value();
    metrics.skipped_steps = loss_scale_->state().skipped;
  }

  metrics.seconds.checkpoint += copying;
  metrics.seconds.step = seconds_since(start) - copying;
  const double waited = context_.scheduler().traffic().waited_seconds();
  if (const auto slow = stragglers_.add(metrics.seconds.step - waited); slow && lead()) log::warn(*slow);
  metrics.tokens_per_second = static_cast<double>(plan_.batch * task_.tokens_per_sample()) / metrics.seconds.step;
  metrics.model_flops_per_second = static_cast<double>(plan_.batch) * task_.flops_per_sample() / metrics.seconds.step;
  metrics.paper_flops_per_second =
      static_cast<double>(plan_.batch) * task_.paper_flops_per_sample() / metrics.seconds.step;
  metrics.utilisation = metrics.model_flops_per_second / gemm_flops_;
  metrics.peak_memory_bytes = peak_memory_bytes(context_.options().device);
  return metrics;
}

// Starts the copies of the save before this step, and ends them if weights or state change next.
void Trainer::copy_for_save(Trace& trace, double& seconds, bool changes_follow) {
  if (!saver_.reads_tensors()) return;
  const StepTimer wait(trace, "checkpoint", &seconds);
  changes_follow ? saver_.wait_until_copied() : saver_.start_copies();
}

// Called by every rank if any rank has such a loss. Nothing has been updated.
void Trainer::refuse_loss(int64_t step, const at::Tensor& losses) {
  saver_.finish();
  const int64_t n = losses.numel();
  const at::Tensor all = at::empty({n * everyone_.size()}, at::kDouble);
  everyone_.all_gather(losses, all).wait();
  std::string where;
  for (int64_t i = 0; i < all.numel() && where.empty(); ++i)
    if (!std::isfinite(all.const_data_ptr<double>()[i]))
      where = detail::concatenate("the loss of micro-batch ", i % n, " on rank ", i / n, " (",
                                  context_.grid().coordinate(static_cast<int>(i / n)).to_string(), ")");
  if (where.empty()) where = "the gradient (every loss is finite)";
  const std::string scaled = loss_scale_
                                 ? detail::concatenate(" after ", loss_scale_->state().in_a_row,
                                                       " skipped ones, at a loss scale of ", loss_scale_->value())
                                 : std::string();
  const auto saved = checkpoints_in(config_.out);
  throw UserError(
      "train.train",
      detail::concatenate(where, " is not finite in step ", step + 1, scaled, ", which has changed nothing; ",
                          saved.empty() ? std::string("no checkpoint has been written")
                                        : "newest checkpoint: " + saved.back().directory.string()));
}

// Called by every rank. Nothing has been updated.
void Trainer::heed_spike(const StepMetrics& metrics) {
  const std::string what = detail::concatenate("step ", metrics.step,
                                               " is a spike: ", guard_.compared(metrics.loss, *metrics.gradient_norm));
  if (guard_.action() == OnSpike::rollback) saver_.finish();
  const std::string checkpoint = saver_.newest().empty() ? identity_.checkpoint : saver_.newest();
  const bool back = guard_.action() == OnSpike::rollback && !checkpoint.empty();
  if (back) {
    roll_back(checkpoint);
  } else {
    AXONN_CHECK(guard_.skip(), "train.train", what, ", after ", SpikeGuard::kMostInARow,
                " others in a row; choose a lower learning rate or a higher --spike-factor");
  }
  if (!lead()) return;
  if (back)
    log::warn(what, "; back to ", checkpoint, ", and on with the batch after it");
  else
    log::warn(what, "; its update is skipped",
              guard_.action() == OnSpike::rollback ? ", as there is no checkpoint yet" : "");
}

// The step that follows is the one after the checkpoint, with the batch that follows now.
void Trainer::roll_back(const std::string& checkpoint) {
  const int64_t next = result_.steps + guard_.state().left_out + 1;
  CheckpointState state;
  all_ranks_or_none(everyone_, [&] {
    const CheckpointReader reader(checkpoint);
    reader.load(context_.shape(), context_.at(), checkpoint_tensors(parameters_, &optimizer_, &task_));
    state = reader.state();
  });
  optimizer_.state_changed();
  optimizer_.set_steps_taken(state.updates());
  if (loss_scale_ && state.loss_scale) loss_scale_->set_state(*state.loss_scale);
  guard_.roll_back(state.spikes.value_or(SpikeGuard::State{}), state.step, next);
  rollbacks_ = std::exchange(rolled_back_to_, state.step) == state.step ? rollbacks_ + 1 : 1;
  AXONN_CHECK(rollbacks_ <= SpikeGuard::kMostInARow, "train.train", checkpoint, " was rolled back to ",
              SpikeGuard::kMostInARow, " times; choose a lower learning rate or a higher --spike-factor");
  result_.steps = state.step;
  rolled_back_ = true;
  all_ranks_or_none(everyone_, [&] {
    if (lead()) metrics_file_.emplace(std::filesystem::path(config_.out) / "metrics.jsonl", state.step);
  });
}

void Trainer::save(int64_t steps_done) {
  CheckpointState state;
  state.run = identity_.run;
  state.step = steps_done;
  state.seed = static_cast<uint64_t>(config_.seed);
  state.samples = (steps_done + guard_.state().left_out) * plan_.batch;
  state.data_fingerprint = identity_.fingerprint;
  state.configuration = identity_.configuration;
  state.tokenizer = identity_.tokenizer;
  state.choices = identity_.choices;
  if (loss_scale_) state.loss_scale = loss_scale_->state();
  if (guard_.matters()) state.spikes = guard_.state();
  auto tensors = tensors_;
  for (CheckpointTensor& tensor : task_.state()) {
    tensor.shard = tensor.shard.clone();  // small, and the task changes it when it wants
    tensors.push_back(std::move(tensor));
  }
  saver_.save(std::move(state), std::move(tensors));
  if (!optimizer_.keeps_gradients()) saver_.start_copies();  // to copy during the forward pass
}

// Takes the maximum of each value over the ranks, and learns whether any rank is to stop.
void Trainer::share(StepMetrics& metrics, bool out_of_time) {
  double* const figures[] = {&metrics.seconds.forward, &metrics.seconds.backward,
                             &metrics.seconds.communication_exposed, &metrics.seconds.optimizer,
                             &metrics.seconds.checkpoint};
  std::vector<double> values = {stop_ && stop_() ? 1.0 : 0.0, out_of_time ? 1.0 : 0.0,
                                static_cast<double>(*metrics.peak_memory_bytes)};
  for (const double* figure : figures) values.push_back(*figure);
  const Saver::Progress saving = saver_.progress();
  values.insert(values.end(), saving.begin(), saving.end());
  const at::Tensor all = at::tensor(at::ArrayRef<double>(values), at::kDouble);
  everyone_.all_reduce(all, ReduceOp::max).wait();
  const double* greatest = all.const_data_ptr<double>();
  stopped_ = greatest[0] != 0;
  out_of_time_ = greatest[1] != 0;
  metrics.peak_memory_bytes = static_cast<int64_t>(greatest[2]);
  for (size_t i = 0; i < std::size(figures); ++i) *figures[i] = greatest[3 + i];
  saver_.advance({greatest[values.size() - 2], greatest[values.size() - 1]});
}

// Between the ends of steps. Collective.
bool Trainer::ask_to_stop() {
  if (stopped_) return true;
  const at::Tensor asked = at::scalar_tensor(stop_ && stop_() ? 1.0 : 0.0, at::kDouble);
  everyone_.all_reduce(asked, ReduceOp::max).wait();
  return stopped_ = asked.item<double>() != 0;
}

void Trainer::announce(const std::string& linear) const {
  const GridShape& shape = context_.shape();
  const ConvolutionChoice& chosen = context_.options().convolutions;
  std::string kernels = chosen == ConvolutionChoice() ? "" : "; convolutions: " + chosen.summary();
  if (context_.options().attention != AttentionProducts::own)
    kernels += "; attention's products in " + std::string(to_string(context_.options().attention));
  std::printf("%s on %s (%d %s, %s), %s, %lld steps\n", identity_.title.c_str(), shape.to_string().c_str(),
              environment_.ranks(), environment_.ranks() == 1 ? "rank" : "ranks",
              std::string(environment_.transport()).c_str(), identity_.data.c_str(),
              static_cast<long long>(config_.steps));
  std::printf(
      "batch %lld = %lld micro-batch%s x %lld %s a rank x z %d x data %d; best matrix product %sFLOP/s, gemm %s%s, "
      "linear %s\n",
      static_cast<long long>(plan_.batch), static_cast<long long>(plan_.micro_batches),
      plan_.micro_batches == 1 ? "" : "es", static_cast<long long>(plan_.micro_batch),
      std::string(task_.words().samples).c_str(), shape.z, shape.data, with_unit(gemm_flops_).c_str(),
      context_.options().gemm.to_string().c_str(), kernels.c_str(), linear.c_str());
  std::fflush(stdout);
}

// Events that are due after some steps, in this order. They belong to the step's line in the
// metrics.
std::vector<Trainer::Event> Trainer::events(StepMetrics& metrics) {
  return {{.name = "replicas",
           .every = config_.check_replicas,
           .action = [this] { check_replicas(context_, checkpoint_tensors(parameters_, &optimizer_), result_.steps); }},
          {.name = "validation",
           .every = config_.validate_every,
           .at_end = true,
           .seconds = &metrics.seconds.validation,
           .action =
               [this, &metrics] {
                 const auto averaged = optimizer_.use_average();
                 metrics.validation_loss = task_.validate();
                 if (metrics.validation_loss) result_.validation_loss = metrics.validation_loss;
               }},
          {.name = "samples",
           .every = config_.sample_every,
           .at_end = config_.sample_every > 0,
           .seconds = &metrics.seconds.validation,
           .action = [this] {
             const auto averaged = optimizer_.use_average();
             task_.write_samples(config_.out, result_.steps);
           }}};
}

// Returns whether the run is to end, now at the latest.
bool Trainer::act(const Event& event, bool last, Trace& trace) {
  const bool due = event.every > 0 && result_.steps % event.every == 0;
  if (!due && !(last && event.at_end)) return last;
  const StepTimer part(trace, event.name, event.seconds);
  event.action();
  return ask_to_stop() || last;
}

void Trainer::begin(int64_t first_step) {
  const at::Tensor gemm =
      at::scalar_tensor(measure_gemm_flops(context_.options().dtype, context_.options().device), at::kDouble);
  everyone_.all_reduce(gemm).wait();
  gemm_flops_ = gemm.item<double>();
  result_.steps = first_step;
  const std::string linear = linear_schedules(context_);
  all_ranks_or_none(everyone_, [&] {
    if (!lead()) return;
    metrics_file_.emplace(std::filesystem::path(config_.out) / "metrics.jsonl",
                          first_step > 0 ? std::optional(first_step) : std::nullopt);
    progress_.emplace(std::cout, progress_options(config_, first_step));
    status_.emplace(config_.out);
    status_->running(first_step);
    announce(linear);
  });
}

// Writes to the file and the terminal, on rank 0.
void Trainer::tell(const StepMetrics& metrics, double seconds) {
  if (!lead()) return;
  metrics_file_->write(metrics);
  status_->running(result_.steps);
  progress_->update({.step = result_.steps,
                     .loss = metrics.loss,
                     .validation_loss = result_.validation_loss,
                     .tokens_per_second = metrics.tokens_per_second,
                     .terms = task_.words().short_terms,
                     .utilisation = metrics.utilisation,
                     .hidden = metrics.hidden()},
                    seconds);
}

void Trainer::take_steps(int64_t first_step) {
  Trace trace(context_, config_.trace, config_.steps - first_step);
  const StoppableTask stoppable(task_, [this] { return ask_to_stop(); });
  const auto start = Clock::now();
  const Event saving{.name = "checkpoint",
                     .every = config_.save_every,
                     .at_end = config_.save_last,
                     .seconds = &saving_seconds_,
                     .action = [this] { save(result_.steps); }};
  for (bool last = first_step >= config_.steps; !last;) {
    trace.begin_step(result_.steps + 1);
    crash::set_step(result_.steps + 1);
    StepMetrics metrics = one_step(result_.steps, trace);
    if (std::exchange(rolled_back_, false)) {
      trace.end_step();
      last = ask_to_stop();
      continue;
    }
    result_.steps += 1;
    result_.loss = metrics.loss;
    share(metrics, config_.minutes > 0 && seconds_since(start) > config_.minutes * 60);
    last = stopped_ || out_of_time_ || result_.steps == config_.steps;
    for (const Event& event : events(metrics)) last = act(event, last, trace);
    tell(metrics, seconds_since(start));  // first: a run that is killed from here on resumes with the whole line
    last = act(saving, last, trace);
    trace.end_step();
  }
  trace.finish();
  saver_.check_last();
  result_.checkpoint = saver_.newest();
}

// On rank 0.
void Trainer::end() {
  progress_->finish();
  if (result_.steps >= config_.steps)
    status_->done(result_.steps);
  else
    status_->stopped(result_.steps, stopped_ ? "a signal" : "the time of --minutes is over");
}

TrainResult Trainer::run(int64_t first_step) {
  begin(first_step);
  try {
    take_steps(first_step);
  } catch (const std::exception& error) {
    if (lead()) status_->failed(result_.steps, reason_of(error));
    throw;
  }
  if (lead()) end();
  return result_;
}

}  // namespace

int64_t TrainConfig::rows(const GridShape& shape) const {
  return micro_batch > 0 ? micro_batch : std::max<int64_t>(batch / shape.size(kRowAxes), 1);
}

void check_train(const TrainConfig& config) {
  const auto at_least = [](auto value, auto least, const char* name) {
    AXONN_CHECK(value >= least, "train.config", name, " must be at least ", least, ", got ", value);
  };
  at_least(config.steps, 1, "steps");
  at_least(config.batch, 1, "batch");
  at_least(config.keep, 1, "keep");
  for (const auto& [value, name] : {std::pair(config.micro_batch, "micro_batch"),
                                    {config.warmup, "warmup"},
                                    {config.seed, "seed"},
                                    {config.validate_every, "validate_every"},
                                    {config.sample_every, "sample_every"},
                                    {config.save_every, "save_every"},
                                    {config.check_replicas, "check_replicas"},
                                    {config.log_every, "log_every"}})
    at_least(value, 0, name);
  AXONN_CHECK(config.save_memory == 0 || config.save_memory >= kLeastCopies, "train.config",
              "save_memory must be 0 or at least ", kLeastCopies, " bytes, got ", config.save_memory);
  check_optimizer(config.optimizer);
  for (const auto& [value, name] :
       {std::pair(config.learning_rate_end, "learning_rate_end"), {config.clip, "clip"}, {config.minutes, "minutes"}})
    at_least(value, 0, name);
  LossScale scale(config.loss_scale);
  SpikeGuard guard(config.spikes);
}

std::unique_ptr<Optimizer> make_optimizer(Context& context, const Parameters& parameters, const TrainConfig& config) {
  OptimizerSettings settings = config.optimizer;
  settings.clips = config.clip > 0 || context.options().dtype == at::kHalf;
  return make_optimizer(context, parameters, settings);
}

TrainResult train(const TrainedNetwork& network, const TrainConfig& config, const RunIdentity& identity,
                  int64_t first_step, const std::function<bool()>& stop) {
  return Trainer(network, config, identity, stop).run(first_step);
}

}  // namespace axonn
