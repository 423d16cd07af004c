#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/comm/communicator.hpp"
#include "axonn/optim/loss_scale.hpp"
#include "axonn/optim/spike_guard.hpp"
#include "axonn/train/batch_plan.hpp"
#include "axonn/train/passes.hpp"
#include "axonn/train/report/metrics.hpp"
#include "axonn/train/report/trace.hpp"
#include "axonn/train/trainer.hpp"
#include "train/device_numbers.hpp"
#include "train/graphed_step.hpp"
#include "train/saver.hpp"

namespace axonn {

// The steps of a run: passes and update, and what happens to a step whose update is refused (an
// overflow of fp16, a spike, a loss that is not finite). It has all that such a decision depends
// on, which is equal on every rank and saved in checkpoints.
class TrainStep {
 public:
  // All of them outlive it. UserError for settings that contradict each other.
  TrainStep(const TrainedNetwork& network, const TrainConfig& config, const RunIdentity& identity,
            Communicator& everyone, Saver& saver);

  struct Taken {
    StepMetrics metrics;             // without utilisation and memory
    std::optional<int64_t> back_to;  // the network is that of this step's checkpoint, instead of a step further
    // Losses, sums and norm, while the host has not read them. Then the metrics lack loss, norm,
    // seconds of the step and speeds.
    std::optional<DeviceNumbers> unread;
  };
  // Step number `step`, from 0. Every rank calls it. UserError if the run cannot go on; then
  // nothing has been updated.
  Taken take(int64_t step, Trace& trace);
  // Waits for the numbers of a step and puts them into its metrics; each step's in order. UserError
  // as take(): neither this step nor later ones have updated anything. Every rank calls it.
  void read(Taken& taken);

  const BatchPlan& plan() const { return plan_; }
  UpdateSchedule update_schedule() const {
    const Context& context = network_.context;
    return schedule_on(config_.optimizer_settings(context.options().dtype), context.shape(), context.options());
  }
  // Puts what is known after `steps` steps into the state of a checkpoint.
  void describe(CheckpointState& state, int64_t steps) const;

 private:
  using Clock = std::chrono::steady_clock;
  double scale() const { return loss_scale_ ? loss_scale_->value() : 1; }
  void set_speeds(StepMetrics& metrics) const;
  PassLosses pass(StepMetrics& metrics, Trace& trace, double& copying);
  Taken take_graph(StepMetrics metrics, Clock::time_point start, double copying);
  void describe(StepMetrics& metrics) const;
  Taken taken_ahead(StepMetrics metrics, Clock::time_point start, const PassLosses& losses, const at::Tensor& norm);
  UpdateReport update(StepMetrics& metrics, const PassLosses& losses, Trace& trace);
  std::optional<int64_t> settle(StepMetrics& metrics, const UpdateReport& report, const PassLosses& losses);
  void copy_for_save(Trace& trace, double& seconds, bool changes_follow);
  void refuse_loss(int64_t step, const at::Tensor& losses);
  std::optional<int64_t> heed_spike(const StepMetrics& metrics);
  int64_t roll_back(const std::string& checkpoint, int64_t step);

  const TrainedNetwork& network_;
  const TrainConfig& config_;
  const RunIdentity& identity_;
  Communicator& everyone_;
  Saver& saver_;
  BatchPlan plan_;
  std::optional<LossScale> loss_scale_;  // with fp16
  SpikeGuard guard_;
  bool ahead_;                          // no step waits for the device: take() never reads its numbers
  std::optional<GraphedStep> graphed_;  // with cuda_graph, after the first steps
  int64_t taken_ = 0;
  int unread_ = 0;                // steps that were taken and not read
  Clock::time_point since_ = {};  // the start of the first of these
  int64_t rollbacks_ = 0;         // to the checkpoint of step `rolled_back_to_`
  int64_t rolled_back_to_ = -1;
};

}  // namespace axonn
