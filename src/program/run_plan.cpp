#include "axonn/program/run_plan.hpp"

#include <sys/sysinfo.h>

#include <algorithm>
#include <string>

#include "axonn/transport/launch.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "axonn/grid/context_ring.hpp"
#include "axonn/kernels/choice/device_choice.hpp"
#include "axonn/overlap/step/gradient_programs.hpp"
#include "axonn/train/batch_plan.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "program.run_plan";

// Far beyond any real run. Within these limits no product of sizes overflows.
constexpr int64_t kMostSamples = 1 << 30;
constexpr int64_t kMostRanks = 1 << 20;
constexpr int64_t kMostCacheBytes = int64_t{1} << 50;

void at_most(int64_t value, int64_t most, const char* name) {
  AXONN_CHECK(value <= most, kWhere, name, " must be at most ", most, ", got ", value);
}

// The largest micro-batch of at most `rows` that fits, 0 if none does. The batch stays, so it must
// divide a rank's share.
int64_t most_rows(const RunPlan& plan, const std::function<int64_t(const RunPlan&)>& bytes, int64_t present,
                  int64_t rows) {
  const int64_t of_a_step = plan.train.batch / plan.row_groups();
  RunPlan smaller = plan;
  int64_t most = 0;
  for (int64_t factor = 1; factor * factor <= of_a_step; ++factor) {
    if (of_a_step % factor != 0) continue;
    for (const int64_t fewer : {factor, of_a_step / factor}) {
      if (fewer > rows || fewer <= most) continue;
      smaller.train.micro_batch = fewer;
      if (bytes(smaller) <= present) most = fewer;
    }
  }
  return most;
}

}  // namespace

void check_run(const RunOptions& options) {
  const NumericsOptions& numerics = options.numerics;
  check_train(options.train);
  at_most(options.train.batch, kMostSamples, "batch");
  at_most(options.train.micro_batch, kMostSamples, "micro_batch");
  const bool onednn = numerics.gemm == GemmKernel::onednn;
  AXONN_CHECK(options.communication.forward.context != kAutomaticContext || !options.placement.grid, kWhere,
              "--context 0 is for --grid auto, which chooses both: give the number of ranks, which divides z");
  AXONN_CHECK(!onednn || gemm_available(GemmKernel::onednn, scalar_type(numerics.dtype), numerics.c10_device()), kWhere,
              "--gemm onednn multiplies fp32 on a CPU, bf16 with AVX-512, if LibTorch has it");
}

RunPlan plan_run(const RunOptions& options) {
  check_run(options);
  const NumericsOptions& numerics = options.numerics;
  AXONN_ASSERT(options.placement.grid, "a plan is of a grid");
  RunPlan plan{
      .grid = *options.placement.grid,
      .context = {.dtype = scalar_type(numerics.dtype),
                  .device = numerics.c10_device(),
                  .gpu_kernels = numerics.gpu_kernels,
                  .kernels = numerics.kernels,
                  .order = options.placement.order,
                  .overlap = options.communication.overlap,
                  .forward = options.communication.forward,
                  .gradient_programs = options.communication.reduction.value_or(std::vector<ReductionProgram>())},
      .gemm = numerics.gemm,
      .train = options.train,
      .choices = options.choices};
  if (numerics.gradient_dtype) plan.context.gradient_dtype = scalar_type(*numerics.gradient_dtype);
  at_most(plan.grid.ranks(), kMostRanks, "the product of the grid");
  check_cuda_graph(plan.train, plan.grid, plan.context);
  check_gradient_programs(plan.context.gradient_programs, Grid(plan.grid, plan.context.order));
  const int64_t context = plan.context.forward.context;
  check_context(plan.grid, context);
  plan_batch(plan.train.batch, plan.rows(), plan.grid, {}, context);
  return plan;
}

void check_ranks(const GridShape& grid, int ranks) {
  AXONN_CHECK(launched() || grid.ranks() == 1, "program.ranks", "grid ", grid.to_string(), " needs ", grid.ranks(),
              " ranks, and this process was started by itself; start it with --ranks ", grid.ranks(), " or mpirun -n ",
              grid.ranks(), ", or choose --grid 1x1x1x1");
  check_shape(grid, ranks);
}

// On CPUs automatic depends on where ranks lie, and whole rows take more.
bool divides_norms(const RunPlan& plan) {
  const ForwardSchedule& forward = plan.context.forward;
  const bool by_itself = plan.context.device.is_cuda() && plan.grid.x > 1 && forward.split == 1;
  return forward.norm_rows == NormRows::on || (forward.norm_rows == NormRows::automatic && by_itself);
}

MemoryOptions memory_options(const RunPlan& plan) {
  const OverlapPolicy& overlap = plan.context.overlap;
  const ArenaTypes types = Context::plan(plan.grid, plan.context).arena_types();
  return {.micro_batch = plan.rows(),
          .element_bytes = static_cast<int64_t>(c10::elementSize(plan.context.dtype)),
          .gradient_bytes = static_cast<int64_t>(c10::elementSize(types.gradients)),
          .state_bytes = static_cast<int64_t>(c10::elementSize(types.master)),
          .moments = optimizer_moments(plan.train.optimizer),
          .divided_update = divides(schedule_on(plan.train.optimizer, plan.grid, plan.context)),
          .ema = plan.train.optimizer.ema > 0,
          .attention_rows = plan.context.forward.attention_rows == AttentionRows::on,
          .norm_rows = divides_norms(plan),
          .gathered_blocks = 1 + (overlap.switches.all_gather ? overlap.prefetch : 0),
          .scattered_blocks = 1 + (overlap.switches.reduce_scatter ? overlap.outstanding : 0),
          .cache_bytes = overlap.switches.cache ? std::min(overlap.cache_budget.bytes, kMostCacheBytes) : 0,
          .logits_copies = plan.context.device.is_cuda() && plan.context.kernels.cross_entropy ? 1 : 3,
          .context = {.ranks = plan.context.forward.context}};
}

std::string what_fits(const RunPlan& plan, const RankMemory& memory, int64_t present) {
  constexpr const char* kLargest = ", the largest micro-batch that fits, or a grid with more ranks";
  const int64_t rows = plan.rows();
  if (const int64_t most = most_rows(plan, memory.bytes, present, rows - 1); most > 0)
    return "choose " + memory.flag_for_rows(most) + kLargest;
  const int64_t most = memory.checkpointed_bytes ? most_rows(plan, memory.checkpointed_bytes, present, rows) : 0;
  if (most == 0) return "not even one row fits: choose a grid with more ranks";
  const std::string checkpointed = "choose --activation-checkpoint 1";
  return most == rows ? checkpointed + ", with which it fits, or a grid with more ranks"
                      : checkpointed + " with " + memory.flag_for_rows(most) + kLargest;
}

double host_bytes() {
  struct sysinfo host{};
  if (sysinfo(&host) != 0) return 0;
  return (static_cast<double>(host.totalram) + static_cast<double>(host.totalswap)) * host.mem_unit;
}

void check_memory(const RunPlan& plan, const RankMemory& memory, int local_rank, int local_ranks) {
  const int64_t needed = memory.bytes(plan);
  if (!plan.context.device.is_cpu()) {
    const int64_t present = gpu_bytes_per_rank(plan.context.device, local_rank, local_ranks);
    AXONN_CHECK(needed <= present, kWhere, "a rank needs at least ", bytes_text(static_cast<double>(needed)),
                " for this network and micro-batch, and its GPU has ", bytes_text(static_cast<double>(present)),
                " for it; ", what_fits(plan, memory, present), "; --dry-run prints the parts");
    return;
  }
  const double present = host_bytes();
  if (present == 0) return;
  AXONN_CHECK(static_cast<double>(needed) * local_ranks <= present, kWhere, "a rank needs ",
              bytes_text(static_cast<double>(needed)), " for this network and micro-batch, and ",
              local_ranks == 1 ? std::string("this machine has ")
                               : detail::concatenate(local_ranks, " ranks share this machine's "),
              bytes_text(present), "; ", what_fits(plan, memory, static_cast<int64_t>(present / local_ranks)),
              "; --dry-run prints the parts");
}

}  // namespace axonn
