#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "axonn/overlap/step/traffic.hpp"

namespace axonn {

// Seconds of one step by part, the greatest over the ranks unless said otherwise.
struct StepSeconds {
  double step = 0;                   // from the end of the step before to the end of this one
  double forward = 0;                // all micro-batches
  double backward = 0;               // all micro-batches
  double communication_exposed = 0;  // waiting for collectives, within the other parts
  double optimizer = 0;              // norm, clipping, update
  double checkpoint = 0;
  double validation = 0;
};

// One line of a run's metrics file (docs/metrics.md has every key and its unit). What is not measured in a step is left out of its line.
struct StepMetrics {
  int64_t step = 0;                          // optimizer steps done, from 1
  double loss = 0;                           // nats a token, mean over the global batch before the update
  std::optional<double> validation_loss;     // nats a token, after the update
  std::optional<double> gradient_norm;       // L2 over all parameters, before clipping
  std::optional<double> loss_scale;          // of the next step, with fp16
  std::optional<int64_t> skipped_steps;      // since the run began, with fp16
  double learning_rate = 0;                  // of this step's update
  std::string_view terms = "tokens";         // what the loss is a mean over
  double tokens_per_second = 0;              // such terms, over the whole grid
  double model_flops_per_second = 0;         // FLOPs of the model (no recomputation) over the whole grid
  double paper_flops_per_second = 0;         // with a recomputation of every layer, as papers count them
  std::optional<double> utilisation;         // model FLOP/s over ranks * best matrix product measured at start, 0 to 1
  std::optional<int64_t> peak_memory_bytes;  // the greatest over the ranks
  StepSeconds seconds;
  TrafficSums communication{};  // of rank 0
  // Share of the communication that ran beside computation; nothing when there was none.
  std::optional<double> hidden() const;

  std::string to_json() const;  // one line, without the line end; numbers that are not finite are null
};

// Appends lines to a file, each whole on return. For rank 0.
class MetricsWriter {
 public:
  // Nothing resumed: a new run, and UserError when the file already holds lines. Resumed at a step: the lines of later steps, and what a
  // kill left half written, are cut off first.
  explicit MetricsWriter(std::filesystem::path path, std::optional<int64_t> resumed_step = {});
  void write(const StepMetrics& metrics);  // BackendError when the disk refuses

 private:
  std::filesystem::path path_;
  std::ofstream out_;
};

}  // namespace axonn
