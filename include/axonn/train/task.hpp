#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/checkpoint/checkpoint.hpp"

namespace axonn {

// What a task's samples, and the terms of their losses, are called.
struct TaskWords {
  std::string_view samples;      // "sequences", "pictures"
  std::string_view terms;        // "tokens": "tokens_per_second" in metrics
  std::string_view short_terms;  // "tok": "12.4 k tok/s" on the progress line
};

// What a model brings to the trainer: samples by number, their loss, a validation. Every rank of the grid calls each in the same order.
class TrainTask {
 public:
  virtual ~TrainTask() = default;

  virtual TaskWords words() const = 0;
  virtual int64_t tokens_per_sample() const = 0;      // terms of a sample's loss
  virtual double flops_per_sample() const = 0;        // model FLOPs of forward and backward
  virtual double paper_flops_per_sample() const = 0;  // as papers count them: a recomputation of every layer included
  // Samples that loss_sum() is asked for after the next ones: to load them in the meantime. Some may never be asked for.
  virtual void prefetch(int64_t first, int64_t count) { (void)first, (void)count; }
  // Sum of the loss over samples [first, first + count), under autograd; a scalar, the same on X and Y.
  virtual at::Tensor loss_sum(int64_t first, int64_t count) = 0;
  // Mean loss over everything held out, the same on every rank; nothing when nothing is held out.
  virtual std::optional<double> validate() = 0;
  // After every step, one that was skipped too.
  virtual void after_step() {}
  // Every TrainConfig::sample_every steps, with the weights that validate() sees: shows what has been learned in files of the run.
  virtual void write_samples(const std::filesystem::path& run_directory, int64_t step) { (void)run_directory, (void)step; }
  // What must survive a resume, of this rank; loading fills it in place.
  virtual std::vector<CheckpointTensor> state() const { return {}; }
};

}  // namespace axonn
