#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include <ATen/core/Tensor.h>

#include "axonn/layers/context.hpp"
#include "axonn/train/batch_plan.hpp"
#include "axonn/train/task.hpp"

namespace axonn {

struct PassOptions {
  uint64_t seed = 1;  // dropout follows it and the samples' numbers
  double scale = 1;   // gradients are those of so many times the loss
  // Told of every forward and backward pass when it is over ("forward", "backward"), for traces and metrics.
  std::function<void(const char* pass, std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end)> on_pass = {};
};

// By micro-batch, where tensors live: reading a number there would make the host wait for the device.
struct PassLosses {
  at::Tensor means;  // parts of the step's loss: they add up to it; the same on every rank
  at::Tensor sums;   // over this rank's samples

  double loss() const { return means.to(at::kDouble).sum().item<double>(); }
};

// One training step without the update: forward and backward of every micro-batch of `plan`, with the samples that step number `step` takes,
// and the end of the step: every gradient has arrived. The task is told what comes next before each forward. Every rank of the grid calls
// it.
PassLosses run_passes(Context& context, TrainTask& task, const BatchPlan& plan, int64_t step, const PassOptions& options = {});

}  // namespace axonn
