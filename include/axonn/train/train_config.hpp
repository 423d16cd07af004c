#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "axonn/layers/context.hpp"
#include "axonn/optim/learning_rate.hpp"
#include "axonn/optim/loss_scale.hpp"
#include "axonn/optim/make_optimizer.hpp"
#include "axonn/optim/spike_guard.hpp"
#include "axonn/train/report/trace.hpp"

namespace axonn {

struct TrainConfig {
  int64_t steps = 1000;
  int64_t batch = 16;           // samples per step over the whole grid
  int64_t micro_batch = 0;      // samples per rank per forward pass; 0: no accumulation
  OptimizerSettings optimizer;  // its learning rate is the peak, after the warm-up
  double learning_rate_end = 1e-4;
  LearningRateSchedule learning_rate_schedule = LearningRateSchedule::cosine;
  double learning_rate_decay = 0.2;  // LearningRate::decay
  int64_t warmup = 100;              // steps
  double clip = 1.0;                 // global norm; 0: never
  int64_t seed = 1;
  bool cuda_graph = false;       // from the fourth step on, a step is launched as one CUDA graph
  double minutes = 0;            // stop after this time with a checkpoint; 0: no limit
  int64_t validate_every = 250;  // steps; 0: only at the end
  int64_t sample_every = 0;      // steps; 0: never
  int64_t save_every = 500;      // steps; 0: only at the end
  bool save_last = true;         // write a checkpoint at the end
  bool save_async = true;        // write checkpoints while training goes on; not with cuda_graph
  int64_t save_files = 0;        // files of a checkpoint; 0: one per rank, or one per host for more than 256 ranks
  int64_t save_memory = 0;       // bytes of copies for it, per rank, from 1 MiB; 0: half of the host's free memory
  int64_t keep = 2;              // number of newest checkpoints to keep
  int64_t check_replicas = 0;    // steps between comparisons of all replicas; 0: never
  int64_t log_every = 0;         // steps between progress lines in a file; 0: a line every 5 seconds
  bool verbose = false;          // the first lines also say how products and updates run
  std::string out = "runs/train";
  bool tensorboard = true;   // writes event files in `out`/tb
  std::string metrics_file;  // the newest numbers go there, for Prometheus; empty: nowhere
  TraceOptions trace;
  LossScaleOptions loss_scale;  // only with fp16
  SpikeOptions spikes;

  // The micro-batch on this grid, where `context` ranks divide sequences; without accumulation when
  // `micro_batch` = 0. UserError unless `context` divides z.
  int64_t rows(const GridShape& shape, int64_t context = 1) const;
  LearningRate learning_rate() const;
  // Settings of the run's optimizer, which knows whether gradients are ever clipped or scaled.
  OptimizerSettings optimizer_settings(at::ScalarType dtype) const;
};

// Throws UserError for a value that is invalid on every grid (a negative rate, no step at all).
void check_train(const TrainConfig& config);

// Throws UserError if steps that are launched as a CUDA graph (TrainConfig::cuda_graph) are asked
// for where there are none.
void check_cuda_graph(const TrainConfig& config, const GridShape& shape, const ContextOptions& options);

// The optimizer of a run, with an average of the weights if `config` asks for one.
std::unique_ptr<Optimizer> make_optimizer(Context& context, const Parameters& parameters, const TrainConfig& config);

}  // namespace axonn
