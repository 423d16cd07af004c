#include "axonn/train/trainer.hpp"

#include <exception>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ops/tensor.h>

#include "axonn/core/crash_report.hpp"
#include "axonn/train/report/trace.hpp"
#include "train/report/metrics.hpp"
#include "train/run_checkpoints.hpp"
#include "train/run_end.hpp"
#include "train/run_report.hpp"
#include "train/step/step_queue.hpp"
#include "train/step/step_stream.hpp"
#include "train/step/train_step.hpp"
#include "train/step_events.hpp"

namespace axonn {
namespace {

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

class Trainer {
 public:
  Trainer(const TrainedNetwork& network, const TrainConfig& config, const RunIdentity& identity,
          const std::function<bool()>& stop)
      : network_(network),
        config_(config),
        identity_(identity),
        everyone_(network.context.communicators().on_cpu(AxisSet::all())),
        end_(config, everyone_, stop),
        checkpoints_(network, config, identity, everyone_),
        step_(network, config, identity, everyone_, checkpoints_.saver()),
        report_(network, config, everyone_, end_),
        queue_(step_, report_),
        events_(network, config, end_, checkpoints_) {}

  TrainResult run(int64_t first_step);

 private:
  void take_steps();
  void take_step(Trace& trace);
  void go_back(int64_t step);
  void share(StepMetrics& metrics);

  const TrainedNetwork& network_;
  const TrainConfig& config_;
  const RunIdentity& identity_;
  Communicator& everyone_;
  RunEnd end_;
  RunCheckpoints checkpoints_;
  TrainStep step_;
  RunReport report_;
  StepQueue queue_;
  StepEvents events_;
  int64_t steps_ = 0;  // done
};

TrainResult Trainer::run(int64_t first_step) {
  steps_ = first_step;
  report_.begin({.identity = identity_,
                 .first_step = first_step,
                 .plan = step_.plan(),
                 .update = step_.update_choice().to_string()});
  checkpoints_.expect();
  try {
    take_steps();
  } catch (const std::exception& error) {
    report_.failed(steps_, error);
    throw;
  }
  report_.end(steps_);
  return {.steps = steps_,
          .loss = report_.loss(),
          .validation_loss = report_.validation_loss(),
          .bits_per_byte = report_.bits_per_byte(),
          .checkpoint = checkpoints_.saver().newest()};
}

void Trainer::take_steps() {
  const StepStream stream(network_.context.options().device, config_.cuda_graph);
  Trace trace(network_.context, config_.trace, config_.steps - steps_);
  const StoppableTask stoppable(network_.task, [this] { return end_.ask(); });
  end_.start();
  while (!end_.reached(steps_)) {
    trace.begin_step(steps_ + 1);
    crash::set_step(steps_ + 1);
    take_step(trace);
    trace.end_step();
  }
  trace.finish();
  checkpoints_.check_last();
}

void Trainer::take_step(Trace& trace) {
  const std::optional<int64_t> back_to = queue_.take(steps_, trace);
  const double saving_seconds = events_.take_saving_seconds();
  if (back_to) return go_back(*back_to);
  steps_ += 1;
  queue_.newest().seconds.checkpoint += saving_seconds;
  share(queue_.newest());
  queue_.tell_earlier();
  if (events_.any_due(steps_)) queue_.complete_newest();
  events_.before_line(steps_, queue_.newest(), trace);
  queue_.tell_newest();
  if (events_.any_due(steps_)) report_.flush();
  events_.save(step_, steps_, trace);
}

// The network is that of an earlier step.
void Trainer::go_back(int64_t step) {
  steps_ = step;
  report_.go_back(step);
  end_.ask();
}

// One all-reduce for all that the ranks tell each other after a step: the maximum of each number
// counts. They are the wishes for the end, the peak memory, parts of the step, and how the save is.
void Trainer::share(StepMetrics& metrics) {
  double* const figures[] = {&metrics.seconds.forward, &metrics.seconds.backward,
                             &metrics.seconds.communication_exposed, &metrics.seconds.optimizer,
                             &metrics.seconds.checkpoint};
  Saver& saver = checkpoints_.saver();
  const RunEnd::Wishes wishes = end_.wishes();
  const Saver::Progress saving = saver.progress();
  std::vector<double> values = {wishes[0], wishes[1], saving[0], saving[1],
                                static_cast<double>(*metrics.peak_memory_bytes)};
  for (const double* figure : figures) values.push_back(*figure);
  const at::Tensor all = at::tensor(at::ArrayRef<double>(values), at::kDouble);
  everyone_.all_reduce(all, ReduceOp::max).wait();
  const double* greatest = all.const_data_ptr<double>();
  end_.decide({greatest[0], greatest[1]});
  metrics.peak_memory_bytes = static_cast<int64_t>(greatest[4]);
  for (size_t i = 0; i < std::size(figures); ++i) *figures[i] = greatest[5 + i];
  saver.advance({greatest[2], greatest[3]});
}

}  // namespace

TrainResult train(const TrainedNetwork& network, const TrainConfig& config, const RunIdentity& identity,
                  int64_t first_step, const std::function<bool()>& stop) {
  check_train(config);
  return Trainer(network, config, identity, stop).run(first_step);
}

}  // namespace axonn
