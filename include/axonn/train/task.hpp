#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/checkpoint/checkpoint.hpp"

namespace axonn {

// Names of a task's samples, and of the terms of their losses.
struct TaskWords {
  std::string_view samples;      // "sequences", "images"
  std::string_view terms;        // "tokens": "tokens_per_second" in metrics
  std::string_view short_terms;  // "tok": "12.4 k tok/s" on the progress line
};

// The part of training that depends on the model: samples by number, their loss, a validation.
// Every rank of the grid calls each function in the same order.
class TrainTask {
 public:
  virtual ~TrainTask() = default;

  virtual TaskWords words() const = 0;
  virtual int64_t tokens_per_sample() const = 0;      // terms in a sample's loss
  virtual double flops_per_sample() const = 0;        // model FLOPs of forward and backward
  virtual double paper_flops_per_sample() const = 0;  // as papers count them: including a recomputation of every layer
  // The samples of the following inputs() calls, so that they can be loaded early. Some may never
  // be used.
  virtual void prefetch(int64_t first, int64_t count) { (void)first, (void)count; }
  // The input of loss_sum() for samples [first, first + count): tensors of the host, or of the
  // device if they are made there. The same number of tensors, sizes and types for the same count.
  virtual std::vector<at::Tensor> inputs(int64_t first, int64_t count) = 0;
  // Sum of the loss over the samples of these inputs, which are on the device, under autograd; a
  // scalar, the same on X and Y. Called after their inputs() and before the next ones.
  virtual at::Tensor loss_sum(const std::vector<at::Tensor>& inputs) = 0;
  // Mean loss over all held-out data, the same on every rank; nullopt if no data is held out, or if
  // the run is to stop.
  virtual std::optional<double> validate() = 0;
  // The bits per byte of the held-out texts that a loss of validate() is; nullopt if their bytes
  // are not known, or if the task has no texts.
  virtual std::optional<double> bits_per_byte(double validation_loss) {
    (void)validation_loss;
    return std::nullopt;
  }
  // How often the first `samples` samples have gone through all data; nullopt if they are drawn, or
  // if parts of the data come round in times of their own.
  virtual std::optional<double> epochs(int64_t samples) const {
    (void)samples;
    return std::nullopt;
  }
  // Why validate() never has a loss, for the user; empty: it has one, or nobody needs to know.
  virtual std::string why_no_validation() const { return ""; }
  // The option by which the host takes part in loss_sum() or after_step(), such as "importance";
  // empty: none, so that a step's launches may be repeated without calling loss_sum().
  virtual std::string_view host_work() const { return {}; }
  // After every step, also after a skipped one.
  virtual void after_step() {}
  // Every TrainConfig::sample_every steps, with the same weights as validate(): writes examples of
  // the model's output to files of the run. Returns the files, on rank 0: images as PNG, texts.
  virtual std::vector<std::filesystem::path> write_samples(const std::filesystem::path& run_directory, int64_t step) {
    (void)run_directory, (void)step;
    return {};
  }
  // State of this rank that a resumed run needs. Loading fills it in place.
  virtual std::vector<CheckpointTensor> state() const { return {}; }

  // Whether the run is to stop, for validate() and write_samples(). The answer must be the same on
  // every rank.
  void set_stop(std::function<bool()> stop) { stop_ = std::move(stop); }
  // Called at each start of a run, when nothing can refuse it any more, before its first file is
  // written. Collective.
  void set_begin(std::function<void()> begin) { begin_ = std::move(begin); }
  void begin() const {
    if (begin_) begin_();
  }

 protected:
  // Asked between parts of a long work, which then ends without a result. Collective.
  bool is_to_stop() const { return stop_ && stop_(); }

 private:
  std::function<bool()> stop_;
  std::function<void()> begin_;
};

}  // namespace axonn
