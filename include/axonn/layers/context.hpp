#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/grid/reduction/reduction_program.hpp"
#include "axonn/grid/row_share.hpp"
#include "axonn/layers/gemm.hpp"
#include "axonn/layers/parameter.hpp"
#include "axonn/overlap/step/scheduler.hpp"

namespace torch::nn {
class Module;
}

namespace axonn {

struct ContextOptions {
  at::ScalarType dtype = at::kFloat;                  // of weights, activations and their messages: fp64, fp32, bf16 or fp16
  std::optional<at::ScalarType> gradient_dtype = {};  // in which weight gradients are summed: also fp32 with bf16 and fp16 (then the default)
  c10::Device device = c10::kCPU;                     // c10::kCUDA without a number: this rank's, by its place on the node
  AxisOrder order = kDefaultOrder;
  Placement placement = {};
  OverlapPolicy overlap = {};       // what communication runs beside computation; the numbers are the same
  int64_t split_forward = 1;        // parts of the rows that a block takes turns on (interleave.hpp); other bits than 1
  GemmChoice gemm = {};             // choose_gemm() measures the best one
  std::vector<int> job_ranks = {};  // the ranks of the job that the grid spans; empty: all of them, and their number must be the grid's

  // Over the grid's ranks, in the place of the rings that sum gradients: overlap/step/gradient_programs.hpp.
  std::vector<ReductionProgram> gradient_programs = {};
};

class Context;

// One training step: forward and backward passes between begin_step() and finish(). Without finish() the optimizer refuses the gradients.
class Step {
 public:
  explicit Step(Context& context) : context_(&context) {}
  // Every gradient has arrived and is summed over the grid. Every rank calls it. UserError naming parameters that got no gradient.
  void finish();

 private:
  Context* context_;
};

// One rank's place on the grid, with what its layers need: communicators, scheduler, dtype, device. Owned by the program, outlives its
// networks.
class Context {
 public:
  // Every rank of the grid makes it. UserError when the shape's product is not the number of ranks, and for programs that
  // check_gradient_programs refuses.
  Context(Environment& environment, GridShape shape, ContextOptions options = {});
  // Arithmetic alone, as seen by `rank`: layers can be made and laid out, nothing is allocated or sent (--dry-run at any size).
  static Context plan(GridShape shape, ContextOptions options = {}, int rank = 0);
  ~Context();
  Context(Context&&) noexcept;
  Context& operator=(Context&&) = delete;

  const Grid& grid() const;
  const GridShape& shape() const { return grid().shape(); }
  int rank() const;  // in the grid
  const Coordinate& at() const;
  RowShare row_share() const;  // which rows of a batch are this rank's
  const ContextOptions& options() const;
  ArenaTypes arena_types() const;  // with bf16 and fp16, master weights and optimizer state are fp32
  bool planned() const;            // made by plan()

  Communicators& communicators();
  Scheduler& scheduler();
  // Another policy from the next step on: every rank, between steps. See Scheduler::set_policy.
  void set_overlap(const OverlapPolicy& policy);

  // Names, lays out, allocates and fills the parameters of every axonn layer in `network`: the same values on every grid. Once per network;
  // `.to()` after it is an error. UserError for a plain torch parameter in the network (its gradient would not be reduced).
  Parameters materialize(torch::nn::Module& network, uint64_t seed);

  struct StepOptions {
    int micro_batches = 1;  // backward passes of the step; after the last one gradients are summed over the grid
  };
  Step begin_step(StepOptions options);
  Step begin_step() { return begin_step(StepOptions()); }

  // Which samples the rows of the coming forward are: number `first` and following ones, one a row of dim 0. Dropout follows (seed, sample
  // number) alone (design, section 3); it is a UserError in a step for which nobody said so: the masks would be those of another step.
  struct Samples {
    uint64_t seed = 0;
    int64_t first = 0;
  };
  void set_samples(Samples samples);
  void set_samples(const std::optional<Samples>& samples);
  const std::optional<Samples>& samples() const;  // nothing before set_samples() and after the end of a step

 private:
  struct Impl;
  explicit Context(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Other samples while it lives: those of an earlier forward, or of some of the rows.
class WithSamples {
 public:
  WithSamples(Context& context, std::optional<Context::Samples> samples) : context_(context), present_(context.samples()) { context.set_samples(samples); }
  ~WithSamples() { context_.set_samples(present_); }
  WithSamples(const WithSamples&) = delete;
  WithSamples& operator=(const WithSamples&) = delete;

 private:
  Context& context_;
  std::optional<Context::Samples> present_;
};

}  // namespace axonn
