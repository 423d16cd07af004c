#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/comm/communicator.hpp"
#include "axonn/optim/loss_scale.hpp"
#include "axonn/optim/spike_guard.hpp"
#include "axonn/train/passes.hpp"
#include "axonn/train/train_config.hpp"
#include "axonn/train/trained_run.hpp"
#include "train/report/metrics.hpp"
#include "train/saver.hpp"

namespace axonn {

// The fate of a step whose update is refused: an overflow of fp16, a spike, a loss that is not
// finite. It has all that such a decision depends on, which is equal on every rank and saved in
// checkpoints. Every rank calls the same functions.
class RefusedUpdates {
 public:
  // All of them outlive it. UserError for settings that contradict each other.
  RefusedUpdates(const TrainedNetwork& network, const TrainConfig& config, const RunIdentity& identity,
                 Communicator& everyone, Saver& saver);

  double scale() const { return loss_scale_ ? loss_scale_->value() : 1; }  // the factor of the next loss
  int64_t left_out() const { return guard_.state().left_out; }             // batches that no step takes any more
  // For UpdateOptions::accept: empty if no norm refuses an update.
  std::function<bool(double norm)> accept(double loss) const;

  // After an update that was made or refused: what that changes, also in the metrics. Returns the
  // step to whose checkpoint the network has gone back. UserError if the run cannot go on; then
  // nothing has been updated.
  std::optional<int64_t> settle(StepMetrics& metrics, const UpdateReport& report, const PassLosses& losses);
  // Throws the UserError about a loss that is not finite on some rank. Nothing has been updated.
  // `step`: the number of the step, from 1; `sums`: this rank's losses, on the host.
  [[noreturn]] void refuse_loss(int64_t step, const at::Tensor& sums);

  void describe(CheckpointState& state) const;

 private:
  std::optional<int64_t> act_on_spike(const StepMetrics& metrics);
  int64_t roll_back(const std::string& checkpoint, int64_t step);

  const TrainedNetwork& network_;
  const TrainConfig& config_;
  const RunIdentity& identity_;
  Communicator& everyone_;
  Saver& saver_;
  std::optional<LossScale> loss_scale_;  // with fp16
  SpikeGuard guard_;
  int64_t rollbacks_ = 0;  // to the checkpoint of step `rolled_back_to_`
  int64_t rolled_back_to_ = -1;
};

}  // namespace axonn
