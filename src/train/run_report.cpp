#include "train/run_report.hpp"

#include <filesystem>
#include <iostream>
#include <string>

#include <sys/resource.h>
#include <unistd.h>

#include <ATen/ops/scalar_tensor.h>

#include "axonn/checkpoint/history.hpp"
#include "axonn/comm/all_ranks_or_none.hpp"
#include "axonn/core/json/json_numbers.hpp"
#include "axonn/core/log.hpp"
#include "axonn/core/sentence.hpp"
#include "axonn/core/standard_streams.hpp"
#include "axonn/train/report/gemm_peak.hpp"
#include "train/head_line.hpp"
#include "train/report/device_memory.hpp"
#include "train/report/run_environment.hpp"
#include "train/report/run_starts.hpp"

namespace axonn {
namespace {

int64_t peak_memory_bytes(c10::Device device) {
  if (device.is_cuda()) return peak_cuda_bytes(device);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

std::filesystem::path metrics_path(const TrainConfig& config) {
  return std::filesystem::path(config.out) / "metrics.jsonl";
}

// mpirun gives each rank a terminal as standard output, even when mpirun's own output goes to a
// file. AXONN_PROGRESS then gives the right mode.
Progress::Options progress_options(const TrainConfig& config, int64_t first_step) {
  return {.steps = config.steps,
          .first_step = first_step,
          .log_every = config.log_every,
          .most_seconds = config.minutes * 60,
          .terminal = redraws_lines(STDOUT_FILENO),
          .descriptor = STDOUT_FILENO};
}

// One line for status.json.
std::string reason_of(const std::exception& error) {
  const std::string text = sentence_of(error);
  return text.substr(0, text.find('\n'));
}

}  // namespace

void RunReport::begin(const Beginning& beginning) {
  const ContextOptions& options = network_.context.options();
  const at::Tensor gemm = at::scalar_tensor(measure_gemm_flops(options.dtype, options.device), at::kDouble);
  everyone_.all_reduce(gemm).wait();
  gemm_flops_ = gemm.item<double>();
  const std::string linear = network_.context.scheduler().linear_text();
  const std::string environment = environment_json(network_, beginning.identity, everyone_);
  network_.task.begin();
  all_ranks_or_none(everyone_, [&] {
    if (!lead()) return;
    open_files(beginning, environment);
    print_head(network_.environment, network_.context,
               {.identity = beginning.identity,
                .config = config_,
                .first_step = beginning.first_step,
                .plan = beginning.plan,
                .samples = network_.task.words().samples,
                .gemm_flops = gemm_flops_,
                .linear = linear,
                .update = beginning.update});
    warn_of_options();
  });
}

void RunReport::open_files(const Beginning& beginning, const std::string& environment) {
  const int64_t first_step = beginning.first_step;
  if (const auto left = leave_after(config_.out, first_step))
    log::warn("the run goes back to step ", first_step, " and on from there; what it had of later steps is now in ",
              left->string(), ", a run of its own; remove it if nobody needs it");
  metrics_file_.emplace(metrics_path(config_), first_step > 0 ? std::optional(first_step) : std::nullopt);
  if (config_.tensorboard) tensorboard_.emplace(config_.out, first_step);
  least_ = metrics_file_->kept();
  progress_.emplace(std::cout, progress_options(config_, first_step));
  status_.emplace(config_.out);
  status_->running(first_step);
  record_start(config_.out, {.start = beginning.identity.start,
                             .from = beginning.identity.from,
                             .step = first_step,
                             .ranks = network_.environment.ranks(),
                             .configuration = beginning.identity.configuration,
                             .choices = beginning.identity.choices,
                             .environment = environment,
                             .config_toml = beginning.identity.config_toml});
  if (!config_.metrics_file.empty()) prometheus_.emplace(config_.metrics_file, config_.out);  // says that it runs
}

void RunReport::warn_of_options() const {
  // Short first runs with the default warm-up need no advice.
  if (config_.warmup > config_.steps && config_.warmup != TrainConfig().warmup)
    log::warn("the warm-up takes ", config_.warmup, " steps and the run ", config_.steps,
              ": it never reaches --learning-rate; choose --warmup for this run");
  if (const std::string why = network_.task.why_no_validation(); !why.empty() && config_.validate_every > 0)
    log::warn("no validation: ", why);
}

void RunReport::launched(StepMetrics& metrics) {
  metrics.peak_memory_bytes = peak_memory_bytes(network_.context.options().device);
  stragglers_.add_waited(network_.context.scheduler().traffic().waited_seconds());
}

void RunReport::complete(StepMetrics& metrics) {
  metrics.straggler = stragglers_.add_step(metrics.seconds.step);
  if (metrics.straggler && lead()) log::warn(*metrics.straggler);
  metrics.utilisation = metrics.model_flops_per_second / gemm_flops_;
  metrics.seconds.run = end_.seconds();
  loss_ = metrics.loss;
}

void RunReport::tell(const StepMetrics& metrics) {
  if (metrics.validation_loss) {
    validation_loss_ = metrics.validation_loss;
    bits_per_byte_ = metrics.bits_per_byte;
  }
  if (!lead()) return;
  write(metrics);
  least_.add(metrics.loss, metrics.validation_loss);
  status_->running(metrics.step);
  progress_->update({.step = metrics.step,
                     .loss = metrics.loss,
                     .validation_loss = validation_loss_,
                     .best_loss = least_.best(),
                     .bits_per_byte = bits_per_byte_,
                     .tokens_per_second = metrics.tokens_per_second,
                     .terms = network_.task.words().short_terms,
                     .utilisation = metrics.utilisation,
                     .hidden = metrics.hidden(),
                     .tokens = metrics.tokens,
                     .epoch = metrics.epoch},
                    end_.seconds());
}

void RunReport::write(const StepMetrics& metrics) {
  const std::string line = metrics.to_json();
  metrics_file_->write(line);
  if (!tensorboard_ && !prometheus_) return;
  const NamedNumbers numbers = json_numbers(line).value();
  if (tensorboard_) {
    tensorboard_->add(metrics.step, numbers);
    for (const auto& sample : metrics.samples) tensorboard_->add_sample(metrics.step, sample);
  }
  if (prometheus_) prometheus_->update(numbers);
}

void RunReport::flush() {
  if (tensorboard_) tensorboard_->flush();
}

void RunReport::go_back(int64_t step) {
  all_ranks_or_none(everyone_, [&] {
    if (!lead()) return;
    metrics_file_.emplace(metrics_path(config_), step);
    if (tensorboard_) tensorboard_->go_back(step);
    least_ = metrics_file_->kept();
  });
}

void RunReport::end(int64_t steps) {
  if (!lead()) return;
  progress_->finish();
  if (prometheus_) prometheus_->end();
  if (steps >= config_.steps)
    status_->done(steps);
  else
    status_->stopped(steps, end_.why_early());
}

void RunReport::failed(int64_t steps, const std::exception& error) {
  if (!lead()) return;
  if (prometheus_) prometheus_->end();
  status_->failed(steps, reason_of(error));
}

}  // namespace axonn
