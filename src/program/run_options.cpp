#include "axonn/program/run_options.hpp"

#include <sys/sysinfo.h>

#include <algorithm>

#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "axonn/overlap/step/gradient_programs.hpp"
#include "axonn/train/batch_plan.hpp"
#include "program/local_job.hpp"

namespace axonn {
namespace {

// Far beyond any run; within them no product of sizes overflows.
constexpr int64_t kMostSamples = 1 << 30;
constexpr int64_t kMostRanks = 1 << 20;
constexpr int64_t kMostPrefetch = 1000;
constexpr int64_t kMostCacheBytes = int64_t{1} << 50;

}  // namespace

void RunOptions::bind(OptionTable& table, const std::string& samples) {
  table.add("run", "grid", grid,
            "x by y by z by data, for instance 2x1x2x1; the product is the number of ranks; auto: the planner's best for --machine");
  table.add(
      "run", "machine", machine,
      "for --grid auto and --reduction auto: a preset of axonn-config such as perlmutter, or a file that `axonn-config calibrate` wrote");
  table.add("run", "order", order, "axes from the innermost: neighbours along the first are neighbouring ranks");
  table.add_choice("run", "dtype", dtype, {{"fp32", at::kFloat}, {"bf16", at::kBFloat16}, {"fp16", at::kHalf}, {"fp64", at::kDouble}},
                   "of weights and activations; with bf16 and fp16, master weights and optimizer state are fp32");
  table.add_choice("run", "gradient_dtype", gradient_dtype, {"auto", "fp32", "bf16", "fp16"},
                   "in which weight gradients are summed with dtype bf16 or fp16: fp32 (auto) or as dtype");
  table.add_choice(
      "run", "gemm", gemm, {"auto", "mm", "onednn"},
      "LibTorch's matrix product on a CPU; auto: the faster one for each use and size, measured at start and kept on resuming");
  table.add_choice("run", "device", device, {"cpu", "cuda"}, "where tensors live");
  table.add("run", "out", train.out, "directory of the run: metrics and checkpoints");
  table.add("run", "trace", train.trace.file, "file for ui.perfetto.dev: what ranks computed, sent and waited for in a few steps");
  table.add("run", "trace_steps", train.trace.steps, "steps in the trace, after the first two");
  table.add("run", "trace_ranks", train.trace.ranks, "ranks in the trace, from the first");
  table.add("run", "seed", train.seed, "of initial values, sample order and dropout");

  table.add("overlap", "overlap", overlap,
            "communication beside computation: all, none, or a list of all-reduce, reduce-scatter, all-gather, cache, buckets");
  table.add("overlap", "gather_cache", gather_cache,
            "gathered weights kept for backward: bytes such as 512M, or a count such as '8 layers'");
  table.add("overlap", "bucket", bucket, "gradients in one message over data, in bytes");
  table.add("overlap", "prefetch", prefetch, "weights gathered ahead of their use");
  table.add("overlap", "reduction", reduction,
            "how gradients are summed over data, and reduce-scattered over Z: ring; auto: the fastest programs for --machine; or programs "
            "as `axonn-config synthesize --json` "
            "prints them, joined by ';'");

  table.add("train", "steps", train.steps, "optimizer steps");
  table.add("train", "batch", train.batch, samples + " a step, over the whole grid");
  table.add("train", "micro_batch", train.micro_batch, samples + " of a rank in one forward; 0: as many as need no accumulation");
  table.add_choice("train", "optimizer", train.optimizer,
                   {{"adamw", OptimizerKind::adamw}, {"sgd", OptimizerKind::sgd}, {"sgd-momentum", OptimizerKind::sgd_momentum}},
                   "update rule");
  table.add("train", "learning_rate", train.learning_rate, "greatest, after the warm-up");
  table.add("train", "learning_rate_end", train.learning_rate_end, "at the last step, after the cosine");
  table.add("train", "warmup", train.warmup, "steps of the linear warm-up");
  table.add("train", "weight_decay", train.weight_decay, "of matrices; vectors are not decayed");
  table.add("train", "beta1", train.beta1, "AdamW: of the mean of the gradients");
  table.add("train", "beta2", train.beta2, "AdamW: of the mean of their squares");
  table.add("train", "epsilon", train.epsilon, "AdamW: added to the root of that mean");
  table.add("train", "momentum", train.momentum, "sgd-momentum");
  table.add("train", "ema", train.ema,
            "decay of an average of the weights, with which is validated, sampled and generated; 0: none, else such as 0.999");
  table.add("train", "clip", train.clip, "greatest global norm of the gradient; 0: never clipped");
  table.add("train", "loss_scale", train.loss_scale.initial, "fp16: gradients are first computed for so many times the loss");
  table.add("train", "loss_scale_interval", train.loss_scale.interval, "fp16: steps without an overflow after which the scale doubles");
  table.add("train", "most_skips", train.loss_scale.most_skips,
            "fp16: steps skipped in a row, each halving the scale, before the run ends");
  table.add("train", "minutes", train.minutes, "after so many the run stops, with a checkpoint; 0: no limit");
  table.add("train", "validate_every", train.validate_every, "steps from one validation to the next; 0: at the end alone");
  table.add("train", "save_every", train.save_every, "steps from one checkpoint to the next; 0: at the end alone");
  table.add("train", "save_last", train.save_last, "a checkpoint at the end; without it a run that only measures leaves its metrics alone");
  table.add("train", "keep", train.keep, "how many of the newest checkpoints are kept");
  table.add("train", "check_replicas", train.check_replicas, "steps from one comparison of all replicas to the next; 0: never");
  table.add("train", "log_every", train.log_every, "steps from one progress line to the next when the output is no terminal");
}

void RunOptions::check() const {
  const GridShape grid_shape = shape();
  const auto at_most = [](int64_t value, int64_t most, const char* name) {
    AXONN_CHECK(value <= most, "train.options", name, " must be at most ", most, ", got ", value);
  };
  check_train(train);
  check_gradient_programs(context().gradient_programs, Grid(grid_shape, parse_axis_order(order)));
  policy();
  AXONN_CHECK(gemm != "onednn" || gemm_available(GemmKernel::onednn, dtype, context().device), "train.options",
              "--gemm onednn multiplies fp32 and bf16 on a CPU alone, in a LibTorch that has it");
  at_most(train.batch, kMostSamples, "batch");
  at_most(train.micro_batch, kMostSamples, "micro_batch");
  at_most(grid_shape.ranks(), kMostRanks, "the product of the grid");
  plan_batch(train.batch, train.rows(grid_shape), grid_shape, {});
}

void RunOptions::check_memory(int64_t rank_bytes, int local_ranks) const {
  struct sysinfo host {};
  if (device != "cpu" || sysinfo(&host) != 0) return;
  const double present = (static_cast<double>(host.totalram) + static_cast<double>(host.totalswap)) * host.mem_unit;
  const auto needed = static_cast<double>(rank_bytes);
  AXONN_CHECK(needed * local_ranks <= present, "train.options", "a rank needs ", bytes_text(needed),
              " for this network and micro-batch, and ",
              local_ranks == 1 ? std::string("this machine has ") : detail::concatenate(local_ranks, " ranks share this machine's "),
              bytes_text(present), "; --dry-run prints the parts");
}

MemoryOptions RunOptions::memory() const {
  const OverlapPolicy overlapped = policy();
  const ArenaTypes types = Context::plan(shape(), context()).arena_types();
  return {.micro_batch = train.rows(shape()),
          .element_bytes = static_cast<int64_t>(c10::elementSize(dtype)),
          .gradient_bytes = static_cast<int64_t>(c10::elementSize(types.gradients)),
          .state_bytes = static_cast<int64_t>(c10::elementSize(types.master)),
          .optimizer = train.optimizer,
          .ema = train.ema > 0,
          .gathered_blocks = 1 + (overlapped.all_gather ? overlapped.prefetch : 0),
          .scattered_blocks = 1 + (overlapped.reduce_scatter ? overlapped.outstanding : 0),
          .cache_bytes = overlapped.cache ? std::min(overlapped.cache_bytes, kMostCacheBytes) : 0};
}

void RunOptions::check_ranks(int ranks) const {
  AXONN_CHECK(launched() || shape().ranks() == 1, "train.ranks", "grid ", shape().to_string(), " needs ", shape().ranks(),
              " ranks, and this process was started alone; start it with mpirun -n ", shape().ranks(), ", or choose --grid 1x1x1x1");
  check_shape(shape(), ranks);
}

OverlapPolicy RunOptions::policy() const {
  AXONN_CHECK(prefetch >= 1 && prefetch <= kMostPrefetch, "train.options", "prefetch must be from 1 to ", kMostPrefetch, ", got ", prefetch,
              "; --overlap without all-gather gathers nothing ahead");
  OverlapPolicy result;
  result.set_switches(overlap);
  result.set_cache_budget(gather_cache);
  result.bucket_bytes = parse_count(bucket, "bucket");
  result.prefetch = static_cast<int>(prefetch);
  return result;
}

ContextOptions RunOptions::context() const {
  std::optional<at::ScalarType> sums;
  if (gradient_dtype != "auto") sums = gradient_dtype == "bf16" ? at::kBFloat16 : gradient_dtype == "fp16" ? at::kHalf : at::kFloat;
  return {.dtype = dtype,
          .gradient_dtype = sums,
          .device = device == "cuda" ? c10::Device(c10::kCUDA) : c10::Device(c10::kCPU),
          .order = parse_axis_order(order),
          .overlap = policy(),
          .gemm = gemm == "auto" ? GemmChoice() : GemmChoice(gemm),
          .gradient_programs = reduction == "auto" ? std::vector<ReductionProgram>() : parse_gradient_programs(reduction)};
}

}  // namespace axonn
