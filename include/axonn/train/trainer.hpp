#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "axonn/train/train_config.hpp"
#include "axonn/train/trained_run.hpp"

namespace axonn {

// The state at the end of a run, for the exit status and the last line.
struct TrainResult {
  int64_t steps = 0;  // steps of the whole run
  double loss = 0;    // loss of the last step
  std::optional<double> validation_loss;
  std::optional<double> bits_per_byte;  // the same loss, of texts whose bytes are known
  std::string checkpoint;               // newest one
};

// The training loop of all programs: steps, clipping, schedule, validation, metrics, progress,
// checkpoints, replica checks. Every rank of the grid calls it. If a loss is not finite anywhere on
// the grid, it throws a UserError with the place, before any update. With fp16 it skips the step
// and halves the loss scale instead, and throws only after too many skipped steps in a row. A spike
// guard, once it has seen enough steps, skips spikes and losses that are not finite, or goes back
// to the newest checkpoint; without one yet, it skips. UserError after too many of them, or if the
// optimizer updates before the norm is known.
// Every rank calls `stop` (Ctrl-C) after every step and save, and within validation and samples. If
// it returns true on any rank, these are cut short, and the run ends with a checkpoint. If the
// system cannot write a checkpoint, this is logged, and training goes on; if it was the last one,
// train() throws the error at the end.
TrainResult train(const TrainedNetwork& network, const TrainConfig& config, const RunIdentity& identity,
                  int64_t first_step, const std::function<bool()>& stop);

}  // namespace axonn
