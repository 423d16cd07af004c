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
#include "axonn/optim/spike_guard.hpp"
#include "axonn/train/report/trace.hpp"
#include "axonn/train/task.hpp"

namespace axonn {

struct TrainConfig {
  int64_t steps = 1000;
  int64_t batch = 16;           // samples per step over the whole grid
  int64_t micro_batch = 0;      // samples per rank per forward pass; 0: no accumulation
  OptimizerSettings optimizer;  // its learning rate is the peak, after the warm-up
  double learning_rate_end = 1e-4;
  int64_t warmup = 100;  // steps
  double clip = 1.0;     // global norm; 0: never
  int64_t seed = 1;
  bool cuda_graph = false;       // from the fourth step on, a step is launched as one CUDA graph
  double minutes = 0;            // stop after this time with a checkpoint; 0: no limit
  int64_t validate_every = 250;  // steps; 0: only at the end
  int64_t sample_every = 0;      // steps; 0: never
  int64_t save_every = 500;      // steps; 0: only at the end
  bool save_last = true;         // write a checkpoint at the end
  bool save_async = true;        // write checkpoints while training goes on; only on CPUs
  int64_t save_memory = 0;       // bytes of copies for it, per rank, from 1 MiB; 0: half of the host's free memory
  int64_t keep = 2;              // number of newest checkpoints to keep
  int64_t check_replicas = 0;    // steps between comparisons of all replicas; 0: never
  int64_t log_every = 10;        // steps
  bool verbose = false;          // the first lines also tell how products and updates run
  std::string out = "runs/train";
  TraceOptions trace;
  LossScaleOptions loss_scale;  // only with fp16
  SpikeOptions spikes;

  // The micro-batch on this grid; without accumulation when `micro_batch` = 0.
  int64_t rows(const GridShape& shape) const;
  // Settings of the run's optimizer, which knows whether gradients are ever clipped or scaled.
  OptimizerSettings optimizer_settings(at::ScalarType dtype) const;
};

// Throws UserError for a value that is invalid on every grid (a negative rate, no step at all).
void check_train(const TrainConfig& config);

// Throws UserError if steps that are launched as a CUDA graph (TrainConfig::cuda_graph) are asked
// for where there are none.
void check_cuda_graph(const TrainConfig& config, const GridShape& shape, const ContextOptions& options);

// The state at the end of a run, for the exit status and the last line.
struct TrainResult {
  int64_t steps = 0;  // steps of the whole run
  double loss = 0;    // loss of the last step
  std::optional<double> validation_loss;
  std::string checkpoint;  // newest one
};

// Data that a checkpoint holds besides tensors; see checkpoint.hpp.
struct RunIdentity {
  std::string run;                                  // unique name of the run; kept when it is resumed in its directory
  std::string start = {};                           // unique name of this start
  std::string title;                                // "gpt 10.7 M parameters", for the first line
  std::string data;                                 // "tinyshakespeare.txt: 1.0 M tokens"
  std::string configuration;                        // JSON object
  std::string tokenizer;                            // JSON object
  uint64_t fingerprint = 0;                         // fingerprint of the data
  std::map<std::string, std::string> choices = {};  // see CheckpointState
  // Of a resumed run:
  std::string checkpoint = {};  // its directory
  std::string from = {};        // the same as starts.jsonl names it: absolute if it is not in the run's own directory
  std::optional<LossScale::State> loss_scale = {};
  std::optional<SpikeGuard::State> spikes = {};
};

// The objects of a run, all on one grid. They must outlive train().
struct TrainedNetwork {
  Environment& environment;
  Context& context;
  const Parameters& parameters;
  Optimizer& optimizer;
  TrainTask& task;
};

// The optimizer of a run, with an average of the weights if `config` asks for one.
std::unique_ptr<Optimizer> make_optimizer(Context& context, const Parameters& parameters, const TrainConfig& config);

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
