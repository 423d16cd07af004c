#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "axonn/comm/communicator.hpp"
#include "axonn/train/batch_plan.hpp"
#include "axonn/train/train_config.hpp"
#include "axonn/train/trained_run.hpp"
#include "train/report/least_losses.hpp"
#include "train/report/metrics.hpp"
#include "train/report/progress.hpp"
#include "train/report/prometheus_file.hpp"
#include "train/report/run_status.hpp"
#include "train/report/stragglers.hpp"
#include "train/run_end.hpp"
#include "train/tensorboard/tensorboard.hpp"

namespace axonn {

// A run's reports: its first lines, the progress line, its files other than checkpoints, and which
// rank is slow. Rank 0 writes; every rank calls each function in the same order.
class RunReport {
 public:
  // All of them outlive it.
  RunReport(const TrainedNetwork& network, const TrainConfig& config, Communicator& everyone, const RunEnd& end)
      : network_(network), config_(config), everyone_(everyone), end_(end), stragglers_(everyone) {}

  struct Beginning {
    const RunIdentity& identity;
    int64_t first_step;
    const BatchPlan& plan;
    std::string update;  // UpdateChoice::to_string()
  };
  // Collective. Measures the best matrix product and writes the first lines. UserError or
  // BackendError if a file of the run cannot be written.
  void begin(const Beginning& beginning);

  // For each step, in this order: it was launched, its numbers are there, its line is whole. Others
  // may be launched in between. The second one is collective.
  void launched(StepMetrics& metrics);
  void complete(StepMetrics& metrics);
  void tell(const StepMetrics& metrics);
  void flush();  // a run that goes on after the steps told has them in all of its files
  // Collective. The next step is the one after `step`: later lines go.
  void go_back(int64_t step);

  void end(int64_t steps);
  void failed(int64_t steps, const std::exception& error);

  double loss() const { return loss_; }  // the last complete step's
  std::optional<double> validation_loss() const { return validation_loss_; }
  std::optional<double> bits_per_byte() const { return bits_per_byte_; }

 private:
  bool lead() const { return network_.context.rank() == 0; }
  void write(const StepMetrics& metrics);
  void open_files(const Beginning& beginning, const std::string& environment);
  void warn_of_options() const;

  const TrainedNetwork& network_;
  const TrainConfig& config_;
  Communicator& everyone_;
  const RunEnd& end_;
  Stragglers stragglers_;
  double gemm_flops_ = 0;  // sum over all ranks
  double loss_ = 0;
  std::optional<double> validation_loss_;      // the newest one
  std::optional<double> bits_per_byte_;        // the same loss
  LeastLosses least_;                          // losses of metrics.jsonl; only on rank 0
  std::optional<RunStatus> status_;            // only on rank 0
  std::optional<MetricsWriter> metrics_file_;  // only on rank 0
  std::optional<TensorBoard> tensorboard_;     // only on rank 0, if it is wanted
  std::optional<PrometheusFile> prometheus_;   // only on rank 0, if it is wanted
  std::optional<Progress> progress_;           // only on rank 0
};

}  // namespace axonn
