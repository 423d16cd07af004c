#pragma once

#include <cstdint>
#include <vector>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/comm/communicator.hpp"
#include "axonn/train/train_config.hpp"
#include "axonn/train/trained_run.hpp"
#include "train/saver.hpp"

namespace axonn {

class TrainStep;

// The checkpoints of a run: what they hold, and the Saver that writes them. All functions are
// collective.
class RunCheckpoints {
 public:
  // All of them outlive it.
  RunCheckpoints(const TrainedNetwork& network, const TrainConfig& config, const RunIdentity& identity,
                 Communicator& everyone);

  // Before the first step: the first save of a run will find its memory ready. Not if the only save
  // is the one at the end, which no step waits for.
  void expect();
  // Begins to save what the network is after `steps` steps. UserError as Saver::save().
  void save(const TrainStep& step, int64_t steps);
  // Ends the saves of a run. Throws the error of the last one if that has failed.
  void check_last() { saver_.check_last(); }

  Saver& saver() { return saver_; }

 private:
  const TrainedNetwork& network_;
  const TrainConfig& config_;
  const RunIdentity& identity_;
  CheckpointWriter writer_;
  Saver saver_;
  const std::vector<CheckpointTensor> tensors_;  // weights and optimizer state
};

}  // namespace axonn
