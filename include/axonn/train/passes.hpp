#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/layers/context.hpp"
#include "axonn/train/batch_plan.hpp"
#include "axonn/train/task.hpp"

namespace axonn {

// The samples of a step on the device, for launches that are repeated with others in their places.
struct StagedSamples {
  std::vector<std::vector<at::Tensor>> inputs;  // TrainTask::inputs() of each micro-batch
  at::Tensor origin;                            // the number of the first sample; int64
};

struct PassOptions {
  uint64_t seed = 1;  // for dropout, together with the sample numbers
  double scale = 1;   // gradients are those of `scale` times the loss
  // Called after every forward and backward pass ("forward", "backward"), for traces and metrics.
  std::function<void(const char* pass, std::chrono::steady_clock::time_point begin,
                     std::chrono::steady_clock::time_point end)>
      on_pass = {};
  // In the place of the samples of `step`, which then does not matter: nothing is prefetched.
  const StagedSamples* staged = nullptr;
};

// One element per micro-batch, on the device: reading a number there would make the host wait for
// the device.
struct PassLosses {
  at::Tensor means;  // parts of the step's loss, which is their sum; the same on every rank
  at::Tensor sums;   // over this rank's samples

  double loss() const { return means.to(at::kDouble).sum().item<double>(); }
};

// The task's inputs of samples [first, first + count), on the device.
std::vector<at::Tensor> placed_inputs(const Context& context, TrainTask& task, int64_t first, int64_t count);

// One training step without the update: forward and backward of every micro-batch of `plan`, with
// the samples of step number `step`, and the end of the step, after which all gradients are
// complete. Before each forward pass, it calls the task's prefetch() with the next samples. Every
// rank of the grid calls it.
PassLosses run_passes(Context& context, TrainTask& task, const BatchPlan& plan, int64_t step,
                      const PassOptions& options = {});

}  // namespace axonn
