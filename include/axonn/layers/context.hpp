#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/grid/reduction/reduction_program.hpp"
#include "axonn/grid/row_share.hpp"
#include "axonn/kernels/choice/attention_products.hpp"
#include "axonn/layers/context_handle.hpp"
#include "axonn/kernels/choice/convolution_choice.hpp"
#include "axonn/kernels/choice/gemm_choice.hpp"
#include "axonn/kernels/choice/device_choice.hpp"
#include "axonn/layers/parameter.hpp"
#include "axonn/overlap/step/scheduler.hpp"
#include "axonn/terms/kernel_choice.hpp"
#include "axonn/terms/forward_schedule.hpp"

namespace torch::nn {
class Module;
}

namespace axonn {

struct ContextOptions {
  at::ScalarType dtype = at::kFloat;                  // weights, activations, messages: fp64, fp32, bf16 or fp16
  std::optional<at::ScalarType> gradient_dtype = {};  // sums of weight gradients: dtype, or fp32 (default for 16 bits)
  c10::Device device = c10::kCPU;                     // c10::kCUDA without a number: chosen by the rank on the node
  GpuKernels gpu_kernels = {};                        // on a GPU: LibTorch's, of the whole process
  KernelChoice kernels = {};                          // on a GPU: which of axonn's own; changes rounding
  AxisOrder order = kDefaultOrder;
  Placement placement = {};
  OverlapPolicy overlap = {};           // the communication that overlaps computation; results are the same
  ForwardSchedule forward = {};         // parts of a block, sums, rows, tokens; changes rounding
  GemmChoice gemm = {};                 // choose_gemm() measures the best one
  ConvolutionChoice convolutions = {};  // choose_convolutions()
  AttentionProducts attention = AttentionProducts::own;  // choose_attention_products()
  // For AttentionRows::automatic, from measure_attention_balance(); zeros: assumed ones.
  AttentionBalance attention_balance = {};
  std::vector<int> job_ranks = {};  // ranks of the job that form the grid; empty: all, as many as the grid has

  // Sum gradients over the grid's ranks instead of rings; see overlap/step/gradient_programs.hpp.
  std::vector<ReductionProgram> gradient_programs = {};
};

// One training step: forward and backward passes between begin_step() and finish(). Without
// finish() the optimizer refuses the gradients. After an error the caller may give the step up.
class Step {
 public:
  explicit Step(Context& context) : context_(context) {}
  // Returns when every gradient has arrived and is summed over the grid. Every rank calls it.
  // UserError naming the parameters that got no gradient.
  void finish();
  // Gives up the step and its gradients: the next one starts as if this one had not been. Every
  // rank calls it, after the same collectives, such as where all of them caught the same error.
  // Waits for what is under way. UserError if weights have changed already (schedule fuse without
  // clipping).
  void abandon();

 private:
  ContextHandle context_;
};

// One rank's position on the grid, with the communicators, scheduler, dtype and device that its
// layers need. The program owns it, as long as it uses the networks, parameters and steps that were
// made with it: each use of these is a UserError afterwards, and destroying them is not. Every rank
// of the grid makes it, with the same grid, order and dtype; else UserError on all of them.
//
// One thread at a time makes contexts, runs steps and calls what communicates. Steps of two threads
// on one Environment at the same time are a UserError of begin_step(), as ranks would not agree on
// their order.
class Context {
 public:
  // Every rank of the grid constructs it. UserError if the shape's product is not the number of
  // ranks, or if check_gradient_programs refuses a program.
  Context(Environment& environment, GridShape shape, ContextOptions options = {});
  // Only arithmetic, as seen by `rank`: layers can be made and laid out, but nothing is allocated
  // or sent (--dry-run at any size).
  static Context plan(GridShape shape, ContextOptions options = {}, int rank = 0);
  ~Context();
  Context(Context&&) noexcept;
  Context& operator=(Context&&) = delete;

  const Grid& grid() const;
  const GridShape& shape() const { return grid().shape(); }
  int rank() const;  // in the grid
  const Coordinate& at() const;
  RowShare row_share() const;  // this rank's rows of a batch, which ForwardSchedule::context ranks have alike
  const ContextOptions& options() const;
  ArenaTypes arena_types() const;  // with bf16 and fp16, master weights and optimizer state are fp32
  bool planned() const;            // made by plan()

  Communicators& communicators();
  Scheduler& scheduler();
  // The same scheduler, for what may outlive the context and be destroyed after it.
  std::shared_ptr<Scheduler> kept_scheduler();
  // Sets the policy from the next step on. Every rank calls it, between steps. See
  // Scheduler::set_policy.
  void set_overlap(const OverlapPolicy& policy);
  // Sets axonn's own kernels from the next step on. Every rank calls it with the same choice,
  // between steps. UserError while a step is under way.
  void set_kernels(const KernelChoice& kernels);

  // Names, lays out, allocates and fills the parameters of every axonn layer in `network`, with the
  // same values on every grid. Call it once per network; `.to()` after it is an error. UserError
  // for a plain torch parameter in the network, because its gradient would not be reduced.
  Parameters materialize(torch::nn::Module& network, uint64_t seed) { return materialize(network, {.seed = seed}); }
  struct MaterializeOptions {
    uint64_t seed = 0;
    // Those of other names are frozen: they get no gradients, no state of an optimizer, and lie in
    // Parameters::frozen(). UserError if none is trained. No function: all are trained.
    std::function<bool(const std::string& name)> is_trained;
    // These begin as zeros, which takes no time: their values are loaded next. No function: none.
    std::function<bool(const std::string& name)> is_loaded;
    // False: for a network that only computes. Nothing requires gradients, and there is no memory
    // for them. UserError with `is_trained`.
    bool trains = true;
  };
  Parameters materialize(torch::nn::Module& network, const MaterializeOptions& options);

  struct StepOptions {
    int micro_batches = 1;  // backward passes per step; gradients are summed over the grid after the last
  };
  Step begin_step(StepOptions options);
  Step begin_step() { return begin_step(StepOptions()); }

  // The samples of the coming forward: number `first` and the following ones, one per row of dim 0.
  // Dropout depends only on (seed, sample number). Dropout in a step without set_samples() is a
  // UserError, because the masks would be those of another step.
  struct Samples {
    uint64_t seed = 0;
    int64_t first = 0;
    // One int64 on the device, to which `first` is added, for launches that are repeated with other
    // samples. It outlives them. Undefined: 0.
    at::Tensor origin = {};
  };
  void set_samples(Samples samples);
  void set_samples(const std::optional<Samples>& samples);
  const std::optional<Samples>& samples() const;  // nullopt before set_samples() and after the end of a step

 private:
  friend class ContextHandle;
  friend class Step;
  void end_step(void (Scheduler::*how)());
  struct Impl;
  explicit Context(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;  // without ownership in the Context that handles refer to
};

// While it lives, replaces the samples by those of an earlier forward or of some of the rows.
class WithSamples {
 public:
  WithSamples(Context& context, std::optional<Context::Samples> samples)
      : context_(context), present_(context.samples()) {
    context.set_samples(samples);
  }
  ~WithSamples() { context_.set_samples(present_); }
  WithSamples(const WithSamples&) = delete;
  WithSamples& operator=(const WithSamples&) = delete;

 private:
  Context& context_;
  std::optional<Context::Samples> present_;
};

}  // namespace axonn
