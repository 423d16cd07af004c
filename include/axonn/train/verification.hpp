#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "axonn/comm/environment.hpp"
#include "axonn/layers/compare/differences.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/optim/learning_rate.hpp"
#include "axonn/optim/make_optimizer.hpp"
#include "axonn/train/task.hpp"

namespace axonn {

// The same few training steps on a grid and on one rank. Matrices that are initialized to zero are
// filled with random values, so that every gradient counts.
struct VerificationOptions {
  at::ScalarType dtype = at::kDouble;
  c10::Device device = c10::kCPU;
  GpuKernels gpu_kernels = {};
  // AdamW's first steps are sign-like. They magnify rounding errors of tiny gradients by learning
  // rate / epsilon, so the rate is small.
  OptimizerSettings optimizer = {.learning_rate = 1e-4};
  std::optional<LearningRate> learning_rate = {};  // rates by step; nothing: the optimizer's own
  int64_t batch = 8;                               // samples per step over the grid
  int64_t micro_batches = 1;                       // forward passes per step
  int steps = 5;
  double max_norm = 1.0;
  uint64_t seed = 1;
  // For the grid; the run on one rank uses none of them.
  KernelChoice kernels = {};
  AxisOrder order = kDefaultOrder;
  OverlapPolicy overlap = {};
  ForwardSchedule forward = {};
  std::vector<ReductionProgram> gradient_programs = {};
};

// A network, not yet materialized, and a task with samples for it. The samples depend only on their
// numbers.
struct VerifiedNetwork {
  std::shared_ptr<torch::nn::Module> model;
  std::unique_ptr<TrainTask> task;
};
using MakeNetwork = std::function<VerifiedNetwork(Context&)>;

// Runs the network on one rank once, then on any number of grids. Every rank of the job constructs
// it and calls on() with the same arguments. Each rank runs the whole network by itself and
// compares the ranges that it stores, so it needs the memory of one rank.
class Verifier {
 public:
  Verifier(Environment& environment, const VerificationOptions& options, MakeNetwork make);
  ~Verifier();
  Verifier(const Verifier&) = delete;
  Verifier& operator=(const Verifier&) = delete;

  Verification on(GridShape shape) { return on(shape, options_.forward); }
  Verification on(GridShape shape, const ForwardSchedule& forward);

 private:
  struct Record;
  Environment& environment_;
  VerificationOptions options_;
  MakeNetwork make_;
  std::unique_ptr<Record> expected_;
};

}  // namespace axonn
