#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/overlap/step/traffic.hpp"
#include "axonn/terms/forward_schedule.hpp"
#include "train/report/least_losses.hpp"

namespace axonn {

// Seconds of the parts of one step: the maximum over the ranks, unless noted otherwise.
struct StepSeconds {
  double step = 0;                   // forward, backward, update; without validation and checkpoints
  double forward = 0;                // all micro-batches
  double backward = 0;               // all micro-batches
  double communication_exposed = 0;  // waiting for collectives, within the other parts
  double optimizer = 0;              // norm, clipping, update
  double checkpoint = 0;             // the save before this step
  double validation = 0;
  double run = 0;  // since the first step of this start began, to the end of this step; on rank 0
};

// One line of a run's metrics file (docs/metrics.md lists every key and its unit). A value that was
// not measured in a step is left out of its line.
struct StepMetrics {
  int64_t step = 0;                          // optimizer steps done, from 1
  int64_t tokens = 0;                        // terms of these steps
  std::optional<double> epoch;               // passes over the data, if they have epochs
  double loss = 0;                           // nats per token, mean over the global batch before the update
  std::optional<double> validation_loss;     // nats per token, after the update
  std::optional<double> bits_per_byte;       // the same loss, of texts whose bytes are known
  std::optional<double> gradient_norm;       // L2 over all parameters, before clipping
  std::optional<double> loss_scale;          // for the next step, with fp16
  std::optional<int64_t> skipped_steps;      // since the run began, with fp16
  std::optional<int64_t> spikes;             // since the run began, with a spike guard
  double learning_rate = 0;                  // rate of this step's update
  std::string_view terms = "tokens";         // unit that the loss is averaged over
  double tokens_per_second = 0;              // terms per second, over the whole grid
  double model_flops_per_second = 0;         // FLOPs of the model (no recomputation) over the whole grid
  double paper_flops_per_second = 0;         // with a recomputation of every layer, as papers count them
  std::optional<double> utilisation;         // model FLOP/s over ranks * best matrix product measured at start, 0 to 1
  std::optional<int64_t> peak_memory_bytes;  // maximum over the ranks
  StepSeconds seconds;
  TrafficSums communication{};     // on rank 0
  LinearCounts linear_products{};  // over several ranks, by schedule, on rank 0
  std::string optimizer_schedule = "ar-opt";
  std::string optimizer_settings;              // "threads=1 segment=16384"; without what is the default
  std::optional<std::string> straggler;        // a sentence about the slowest rank, when it is slow
  std::vector<std::filesystem::path> samples;  // files that were drawn after this step; not in its line
  // Share of the communication that ran beside computation; nullopt when there was none.
  std::optional<double> hidden() const;

  std::string to_json() const;  // one line, without the line end; numbers that are not finite are null
};

// Appends lines to a file. Each line is complete when write() returns. Only for rank 0.
class MetricsWriter {
 public:
  // A new run, unless `resumed_step` is given; then UserError if the file already holds lines. A
  // resumed run first removes the lines of later steps and a half-written line.
  explicit MetricsWriter(std::filesystem::path path, std::optional<int64_t> resumed_step = {});
  void write(const std::string& line);  // to_json(); BackendError when the system cannot write
  // Of the lines that were there before the first write().
  const LeastLosses& kept() const { return kept_; }

 private:
  std::filesystem::path path_;
  LeastLosses kept_;
  std::ofstream out_;
};

}  // namespace axonn
