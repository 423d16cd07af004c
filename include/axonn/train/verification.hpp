#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "axonn/comm/environment.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/optim/make_optimizer.hpp"
#include "axonn/train/task.hpp"

namespace axonn {

// The same few training steps on a grid and on one rank. Matrices that a network begins at zero are filled, so that every gradient counts.
struct VerificationOptions {
  at::ScalarType dtype = at::kDouble;
  c10::Device device = c10::kCPU;
  // AdamW's first steps are sign-like and magnify rounding in tiny gradients by learning rate / epsilon: a small rate.
  OptimizerSettings optimizer = {.learning_rate = 1e-4};
  int64_t batch = 8;          // samples a step over the grid
  int64_t micro_batches = 1;  // forwards a step
  int steps = 5;
  double max_norm = 1.0;
  uint64_t seed = 1;
  // Of the grid; one rank has none of them.
  AxisOrder order = kDefaultOrder;
  OverlapPolicy overlap = {};
  int64_t split_forward = 1;  // see ContextOptions
  std::vector<ReductionProgram> gradient_programs = {};
};

// A network, not yet materialized, and a task with samples for it, which depend on their numbers alone.
struct VerifiedNetwork {
  std::shared_ptr<torch::nn::Module> model;
  std::unique_ptr<TrainTask> task;
};
using MakeNetwork = std::function<VerifiedNetwork(Context&)>;

// A difference max|a - b| / max|b| over one whole stored tensor, the worst of all steps.
struct Difference {
  std::string what;  // "loss", "gradient norm", "gradient h.0.attn.qkv.weight", "weight wte.weight"
  double relative = 0;
  double tolerance = 0;  // design, section 8; infinite where the design sets none
  bool passes() const { return relative <= tolerance; }
};

struct Verification {
  std::vector<Difference> differences;  // the same on every rank
  bool passes() const;
  double worst(std::string_view kind) const;  // largest difference whose `what` starts with it
};

// Runs the network on one rank once, then on as many grids as are asked for. Every rank of the job makes it and calls on() with the same
// arguments; each runs the whole network by itself and compares the ranges that it stores, so it takes the memory of one rank.
class Verifier {
 public:
  Verifier(Environment& environment, const VerificationOptions& options, MakeNetwork make);
  ~Verifier();
  Verifier(const Verifier&) = delete;
  Verifier& operator=(const Verifier&) = delete;

  Verification on(GridShape shape);

 private:
  struct Record;
  Environment& environment_;
  VerificationOptions options_;
  MakeNetwork make_;
  std::unique_ptr<Record> expected_;
};

}  // namespace axonn
