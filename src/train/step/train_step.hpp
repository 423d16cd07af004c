#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/comm/communicator.hpp"
#include "axonn/optim/update_choice.hpp"
#include "axonn/train/batch_plan.hpp"
#include "axonn/train/passes.hpp"
#include "axonn/train/report/trace.hpp"
#include "axonn/train/train_config.hpp"
#include "axonn/train/trained_run.hpp"
#include "train/report/metrics.hpp"
#include "train/saver.hpp"
#include "train/step/device_numbers.hpp"
#include "train/step/graphed_step.hpp"
#include "train/step/refused_updates.hpp"

namespace axonn {

// The steps of a run: passes and update. RefusedUpdates decides about steps that update nothing.
class TrainStep {
 public:
  using Clock = std::chrono::steady_clock;

  // All of them outlive it. UserError for settings that contradict each other.
  TrainStep(const TrainedNetwork& network, const TrainConfig& config, const RunIdentity& identity,
            Communicator& everyone, Saver& saver);

  struct Taken {
    StepMetrics metrics;  // without utilisation and memory
    Clock::time_point start;
    std::optional<int64_t> back_to;  // the network is that of this step's checkpoint, instead of a step further
    // Losses, sums and norm, while the host has not read them. Then the metrics lack loss, norm,
    // seconds of the step and speeds.
    std::optional<DeviceNumbers> unread;
  };
  // Step number `step`, from 0. Every rank calls it. UserError if the run cannot go on; then
  // nothing has been updated.
  Taken take(int64_t step, Trace& trace);
  // Waits for the unread numbers of a step and puts them into its metrics; each step's in order.
  // Every rank calls it. UserError as take(): neither this step nor later ones have updated
  // anything.
  void read(Taken& taken);

  const BatchPlan& plan() const { return plan_; }
  UpdateChoice update_choice() const {
    const Context& context = network_.context;
    return {schedule_on(config_.optimizer_settings(context.options().dtype), context.shape(), context.options()),
            config_.optimizer.run};
  }
  // Puts what is known after `steps` steps into the state of a checkpoint.
  void describe(CheckpointState& state, int64_t steps) const;

 private:
  void set_speeds(StepMetrics& metrics) const;
  PassLosses pass(StepMetrics& metrics, Trace& trace, double& copying);
  Taken take_graph(StepMetrics metrics, Clock::time_point start, double copying);
  void describe(StepMetrics& metrics) const;
  Taken taken_ahead(StepMetrics metrics, Clock::time_point start, const PassLosses& losses, const at::Tensor& norm);
  UpdateReport update(StepMetrics& metrics, const PassLosses& losses, Trace& trace);
  void copy_for_save(Trace& trace, double& seconds, bool changes_follow);

  const TrainedNetwork& network_;
  const TrainConfig& config_;
  Saver& saver_;
  RefusedUpdates refused_;
  BatchPlan plan_;
  bool ahead_;                          // no step waits for the device: take() never reads its numbers
  std::optional<GraphedStep> graphed_;  // with cuda_graph, after the first steps
  int64_t taken_ = 0;
  Clock::time_point last_read_ = {};
};

}  // namespace axonn
