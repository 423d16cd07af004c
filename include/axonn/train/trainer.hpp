#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "axonn/checkpoint/checkpoint.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/optim/loss_scale.hpp"
#include "axonn/optim/make_optimizer.hpp"
#include "axonn/train/report/trace.hpp"
#include "axonn/train/task.hpp"

namespace axonn {

struct TrainConfig {
  int64_t steps = 1000;
  int64_t batch = 16;       // samples a step over the whole grid
  int64_t micro_batch = 0;  // samples a rank a forward; 0: as many as need no accumulation
  OptimizerSettings optimizer;  // its learning rate is the greatest, after the warm-up
  double learning_rate_end = 1e-4;
  int64_t warmup = 100;   // steps
  double clip = 1.0;     // global norm; 0: never
  double ema = 0;        // decay of an average of the weights, with which is validated; 0: none
  int64_t seed = 1;
  double minutes = 0;            // stop after that time with a checkpoint; 0: no limit
  int64_t validate_every = 250;  // steps; 0: at the end alone
  int64_t sample_every = 0;      // steps; 0: never
  int64_t save_every = 500;      // steps; 0: at the end alone
  bool save_last = true;         // a checkpoint at the end
  int64_t keep = 2;              // newest checkpoints kept
  int64_t check_replicas = 0;    // every so many steps all replicas are compared; 0: never
  int64_t log_every = 10;        // steps
  std::string out = "runs/train";
  TraceOptions trace;
  LossScaleOptions loss_scale;  // with fp16

  // The micro-batch that `micro_batch` = 0 stands for on this grid: no accumulation.
  int64_t rows(const GridShape& shape) const;
};

// Throws UserError for a value that means nothing on any grid (a negative rate, no step at all).
void check_train(const TrainConfig& config);

// What ends a run early, for the exit status and the last line.
struct TrainResult {
  int64_t steps = 0;  // taken in all
  double loss = 0;    // of the last step
  std::optional<double> validation_loss;
  std::string checkpoint;  // newest one
};

// What a checkpoint carries beside the numbers; see checkpoint.hpp.
struct RunIdentity {
  std::string run;                                  // tells this run from every other; kept over resumes
  std::string title;                                // "gpt 10.7 M parameters", for the first line
  std::string data;                                 // "tinyshakespeare.txt: 1.0 M tokens"
  std::string configuration;                        // JSON object
  std::string tokenizer;                            // JSON object
  uint64_t fingerprint = 0;                         // of the data
  std::map<std::string, std::string> choices = {};  // see CheckpointState
  std::optional<LossScale::State> loss_scale = {};  // where the resumed run stood
};

// What a run trains, all of one grid; everything outlives it.
struct TrainedNetwork {
  Environment& environment;
  Context& context;
  const Parameters& parameters;
  Optimizer& optimizer;
  TrainTask& task;
};

// The optimizer of a run, with the average of the weights that it asks for.
std::unique_ptr<Optimizer> make_optimizer(Context& context, const Parameters& parameters, const TrainConfig& config);

// The training loop that every program shares: steps, clipping, schedule, validation, metrics, progress, checkpoints, replica checks. Every
// rank of the grid calls it. A loss that is not finite anywhere on the grid is a UserError that says where, before anything is updated;
// with fp16 the step is skipped and the loss scale halved, until too many in a row were.
// `stop` is asked after every step on every rank (Ctrl-C): one true ends the run with a checkpoint.
TrainResult train(const TrainedNetwork& network, const TrainConfig& config, const RunIdentity& identity, int64_t first_step,
                  const std::function<bool()>& stop);

}  // namespace axonn
