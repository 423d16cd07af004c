#include "axonn/train/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <limits>
#include <utility>

#include <sys/resource.h>

#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/crash_report.hpp"
#include "axonn/core/env.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "axonn/core/sentence.hpp"
#include "axonn/core/standard_streams.hpp"
#include "axonn/optim/update_choice.hpp"
#include "axonn/train/checkpoint_tensors.hpp"
#include "axonn/train/replicas.hpp"
#include "axonn/train/report/gemm_peak.hpp"
#include "axonn/train/report/metrics.hpp"
#include "axonn/train/report/progress.hpp"
#include "axonn/train/report/trace.hpp"
#include "train/report/device_memory.hpp"
#include "train/report/head_line.hpp"
#include "train/report/run_starts.hpp"
#include "train/report/run_status.hpp"
#include "train/report/step_timer.hpp"
#include "train/report/stragglers.hpp"
#include "train/saver.hpp"
#include "train/train_step.hpp"

namespace axonn {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

int64_t peak_memory_bytes(c10::Device device) {
  if (device.is_cuda()) return peak_cuda_bytes(device);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
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
  const std::string text = sentence_of(error);
  return text.substr(0, text.find('\n'));
}

class Trainer {
 public:
  Trainer(const TrainedNetwork& network, const TrainConfig& config, const RunIdentity& identity,
          const std::function<bool()>& stop)
      : network_(network),
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
                .local_ranks = network.environment.local_ranks(),
                .wait_for_tensors = [this] { parameters_.schedule().wait_for_weights(); }}),
        tensors_(checkpoint_tensors(parameters_, &optimizer_)),
        step_(network, config, identity, everyone_, saver_) {}

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
  TrainStep::Taken one_step(Trace& trace);
  void complete(TrainStep::Taken& taken);
  bool due(const Event& event, bool last) const;
  void restart_at(int64_t step);
  void save(int64_t steps_done);
  void share(StepMetrics& metrics, bool out_of_time);
  bool ask_to_stop();

  const TrainedNetwork& network_;
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
  TrainStep step_;
  double gemm_flops_ = 0;      // sum over all ranks
  double saving_seconds_ = 0;  // the save after the last step took so many
  bool stopped_ = false;       // some rank was asked to, and all know it
  bool out_of_time_ = false;
  TrainResult result_;
  std::optional<RunStatus> status_;            // only on rank 0
  std::optional<MetricsWriter> metrics_file_;  // only on rank 0
  std::optional<Progress> progress_;
};

TrainStep::Taken Trainer::one_step(Trace& trace) {
  TrainStep::Taken taken = step_.take(result_.steps, trace);
  StepMetrics& metrics = taken.metrics;
  metrics.seconds.checkpoint += std::exchange(saving_seconds_, 0);
  metrics.peak_memory_bytes = peak_memory_bytes(context_.options().device);
  stragglers_.add_waited(context_.scheduler().traffic().waited_seconds());
  if (!taken.unread) complete(taken);
  return taken;
}

// With the numbers of the step.
void Trainer::complete(TrainStep::Taken& taken) {
  step_.read(taken);
  StepMetrics& metrics = taken.metrics;
  if (const auto slow = stragglers_.add_step(metrics.seconds.step); slow && lead()) log::warn(*slow);
  metrics.utilisation = metrics.model_flops_per_second / gemm_flops_;
  result_.loss = metrics.loss;
}

// After a rollback to that step.
void Trainer::restart_at(int64_t step) {
  result_.steps = step;
  all_ranks_or_none(everyone_, [&] {
    if (lead()) metrics_file_.emplace(std::filesystem::path(config_.out) / "metrics.jsonl", step);
  });
}

void Trainer::save(int64_t steps_done) {
  CheckpointState state;
  state.run = identity_.run;
  state.start = identity_.start;
  step_.describe(state, steps_done);
  state.data_fingerprint = identity_.fingerprint;
  state.configuration = identity_.configuration;
  state.tokenizer = identity_.tokenizer;
  state.choices = identity_.choices;
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

bool Trainer::due(const Event& event, bool last) const {
  return (event.every > 0 && result_.steps % event.every == 0) || (last && event.at_end);
}

// Returns whether the run is to end, now at the latest.
bool Trainer::act(const Event& event, bool last, Trace& trace) {
  if (!due(event, last)) return last;
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
  if (config_.save_every > 0) saver_.expect(tensors_);  // no step waits for the save at the end
  const std::string linear = context_.scheduler().linear_text();
  all_ranks_or_none(everyone_, [&] {
    if (!lead()) return;
    if (const auto left = leave_after(config_.out, first_step))
      log::warn("the run goes back to step ", first_step, " and on from there; what it had of later steps is now in ",
                left->string(), ", a run of its own; remove it if nobody needs it");
    metrics_file_.emplace(std::filesystem::path(config_.out) / "metrics.jsonl",
                          first_step > 0 ? std::optional(first_step) : std::nullopt);
    progress_.emplace(std::cout, progress_options(config_, first_step));
    status_.emplace(config_.out);
    status_->running(first_step);
    record_start(config_.out, {.start = identity_.start,
                               .from = identity_.from,
                               .step = first_step,
                               .ranks = network_.environment.ranks(),
                               .configuration = identity_.configuration});
    print_head(network_.environment, context_,
               {.title = identity_.title,
                .data = identity_.data,
                .steps = config_.steps,
                .plan = step_.plan(),
                .samples = task_.words().samples,
                .gemm_flops = gemm_flops_,
                .linear = linear,
                .update = UpdateChoice{step_.update_schedule(), config_.optimizer.run}.to_string(),
                .verbose = config_.verbose});
    // Short first runs with the default warm-up need no advice.
    if (config_.warmup > config_.steps && config_.warmup != TrainConfig().warmup)
      log::warn("the warm-up takes ", config_.warmup, " steps and the run ", config_.steps,
                ": it never reaches --learning-rate; choose --warmup for this run");
    if (const std::string why = task_.why_no_validation(); !why.empty() && config_.validate_every > 0)
      log::warn("no validation: ", why);
  });
}

// Writes to the file and the terminal, on rank 0.
void Trainer::tell(const StepMetrics& metrics, double seconds) {
  if (!lead()) return;
  metrics_file_->write(metrics);
  status_->running(metrics.step);
  progress_->update({.step = metrics.step,
                     .loss = metrics.loss,
                     .validation_loss = result_.validation_loss,
                     .tokens_per_second = metrics.tokens_per_second,
                     .terms = task_.words().short_terms,
                     .utilisation = metrics.utilisation,
                     .hidden = metrics.hidden()},
                    seconds);
}

// A graph is recorded from a stream that is not the default one: all steps and what comes between
// them then go to this one.
class StepStream {
 public:
  StepStream(c10::Device device, bool own) : streams_(device.type()), device_(device) {
    if (own) guard_.emplace(streams_.getStreamFromGlobalPool(device));
    if (own) streams_.synchronizeDevice(device.index());
  }
  ~StepStream() {
    if (guard_) streams_.synchronizeDevice(device_.index());
  }
  StepStream(const StepStream&) = delete;
  StepStream& operator=(const StepStream&) = delete;

 private:
  c10::impl::VirtualGuardImpl streams_;
  c10::Device device_;
  std::optional<c10::StreamGuard> guard_;
};

void Trainer::take_steps(int64_t first_step) {
  const StepStream stream(context_.options().device, config_.cuda_graph);
  Trace trace(context_, config_.trace, config_.steps - first_step);
  const StoppableTask stoppable(task_, [this] { return ask_to_stop(); });
  const auto start = Clock::now();
  const Event saving{.name = "checkpoint",
                     .every = config_.save_every,
                     .at_end = config_.save_last,
                     .seconds = &saving_seconds_,
                     .action = [this] { save(result_.steps); }};
  std::optional<TrainStep::Taken> before;  // a step that was taken and not completed: the device is busy with it
  for (bool last = first_step >= config_.steps; !last;) {
    trace.begin_step(result_.steps + 1);
    crash::set_step(result_.steps + 1);
    TrainStep::Taken taken = one_step(trace);
    if (taken.back_to) {
      restart_at(*taken.back_to);
      trace.end_step();
      last = ask_to_stop();
      continue;
    }
    result_.steps += 1;
    share(taken.metrics, config_.minutes > 0 && seconds_since(start) > config_.minutes * 60);
    last = stopped_ || out_of_time_ || result_.steps == config_.steps;
    if (before) {
      complete(*before);
      tell(before->metrics, seconds_since(start));
      before.reset();
    }
    const std::vector<Event> all = events(taken.metrics);
    const auto is_due = [&](const Event& event) { return due(event, last); };
    if (taken.unread && !last && !is_due(saving) && std::ranges::none_of(all, is_due)) {
      before.emplace(std::move(taken));
      trace.end_step();
      continue;
    }
    if (taken.unread) complete(taken);
    for (const Event& event : all) last = act(event, last, trace);
    tell(taken.metrics, seconds_since(start));  // first: a run that is killed now resumes with the whole line
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
    status_->stopped(result_.steps, output_failed() ? "the standard output cannot be written"
                                    : stopped_      ? "a signal"
                                                    : "the time of --minutes is over");
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

TrainResult train(const TrainedNetwork& network, const TrainConfig& config, const RunIdentity& identity,
                  int64_t first_step, const std::function<bool()>& stop) {
  check_train(config);
  return Trainer(network, config, identity, stop).run(first_step);
}

}  // namespace axonn
