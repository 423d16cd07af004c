#include "axonn/program/run_options.hpp"

#include "axonn/config/codecs.hpp"
#include "axonn/overlap/step/gradient_programs.hpp"

namespace axonn {

template <>
struct Names<DeviceKind> {
  static constexpr Named<DeviceKind> all[] = {{"cpu", DeviceKind::cpu}, {"cuda", DeviceKind::cuda}};
};

template <>
struct Codec<CacheBudget> {
  static CacheBudget parse(std::string_view text, std::string_view what) {
    return parsed_for(what, [&] { return parse_cache_budget(text); });
  }
  static std::string print(const CacheBudget& budget) { return to_string(budget); }
  static std::string type() { return "TEXT"; }
};

template <>
struct Codec<std::vector<ReductionProgram>> {
  static std::vector<ReductionProgram> parse(std::string_view text, std::string_view what) {
    return parsed_for(what, [&] { return parse_gradient_programs(text); });
  }
  static std::string print(const std::vector<ReductionProgram>& programs) {
    std::string text;
    for (const ReductionProgram& program : programs) text += (text.empty() ? "" : ";") + program.to_string();
    return text.empty() ? "ring" : text;
  }
  static std::string type() { return "TEXT"; }
};

void PlacementOptions::bind(OptionTable& table) {
  table.add("run", "grid", grid,
            "x by y by z by data, for instance 2x1x2x1; the product is the number of ranks; auto: the planner's best for --machine");
  table.add("run", "machine", machine,
            "for --grid auto and --reduction auto: a preset of axonn-config such as perlmutter, or a file that `axonn-config calibrate` "
            "wrote");
  table.add("run", "order", order, "axes from the innermost: neighbours along the first are neighbouring ranks");
}

void NumericsOptions::bind(OptionTable& table) {
  table.add("run", "dtype", dtype, "of weights and activations; with bf16 and fp16, master weights and optimizer state are fp32");
  table.add("run", "gradient_dtype", gradient_dtype,
            "in which weight gradients are summed with dtype bf16 or fp16: fp32 (auto) or as dtype");
  table.add("run", "gemm", gemm,
            "LibTorch's matrix product on a CPU; auto: the faster one for each use and size, measured at start and kept on resuming");
  table.add("run", "device", device, "where tensors live");
}

c10::Device NumericsOptions::c10_device() const { return device == DeviceKind::cuda ? c10::Device(c10::kCUDA) : c10::Device(c10::kCPU); }

void CommunicationOptions::bind(OptionTable& table) {
  constexpr int64_t kMostBucket = int64_t{1} << 50, kMostPrefetch = 1000, kMostParts = 1 << 20;
  table.add("overlap", "overlap", overlap.switches, "communication beside computation: " + overlap_switches_help());
  table.add("overlap", "gather_cache", overlap.cache_budget,
            "gathered weights kept for backward: bytes such as 512M, or a count such as '8 layers'");
  table.add("overlap", "bucket", overlap.bucket_bytes, "gradients in one message over data, in bytes",
            {.least = 0, .most = kMostBucket, .suffixes = Suffixes::binary});
  table.add("overlap", "prefetch", overlap.prefetch, "weights gathered ahead of their use; --overlap without all-gather gathers none",
            {.least = 1, .most = kMostPrefetch});
  table.add("overlap", "reduction", reduction,
            "how gradients are summed over data, and reduce-scattered over Z: ring; auto: the fastest programs for --machine; or programs "
            "as `axonn-config synthesize --json` prints them, joined by ';'");
  table.add("overlap", "split_forward", split_forward,
            "a block takes turns on so many parts of the micro-batch: one's all-reduces move while another computes (not the same bits)",
            {.least = 1, .most = kMostParts});
}

namespace {

void bind_trace(OptionTable& table, TraceOptions& trace) {
  table.add("run", "trace", trace.file, "file for ui.perfetto.dev: what ranks computed, sent and waited for in a few steps");
  table.add("run", "trace_steps", trace.steps, "steps in the trace, after the first two");
  table.add("run", "trace_ranks", trace.ranks, "ranks in the trace, from the first");
}

void bind_optimizer(OptionTable& table, TrainConfig& train) {
  table.add("train", "optimizer", train.optimizer.kind, "update rule");
  table.add("train", "learning_rate", train.optimizer.learning_rate, "greatest, after the warm-up");
  table.add("train", "learning_rate_end", train.learning_rate_end, "at the last step, after the cosine");
  table.add("train", "warmup", train.warmup, "steps of the linear warm-up");
  table.add("train", "weight_decay", train.optimizer.weight_decay, "of matrices; vectors are not decayed");
  table.add("train", "beta1", train.optimizer.beta1, "of the mean of the gradients, where the rule keeps one");
  table.add("train", "beta2", train.optimizer.beta2, "of the mean of their squares, where the rule keeps one");
  table.add("train", "epsilon", train.optimizer.epsilon, "added to the root of that mean");
  table.add("train", "momentum", train.optimizer.momentum, "of sgd-momentum");
  table.add("train", "ema", train.ema,
            "decay of an average of the weights, with which is validated, sampled and generated; 0: none, else such as 0.999");
  table.add("train", "clip", train.clip, "greatest global norm of the gradient; 0: never clipped");
  table.add("train", "loss_scale", train.loss_scale.initial, "fp16: gradients are first computed for so many times the loss");
  table.add("train", "loss_scale_interval", train.loss_scale.interval, "fp16: steps without an overflow after which the scale doubles");
  table.add("train", "most_skips", train.loss_scale.most_skips,
            "fp16: steps skipped in a row, each halving the scale, before the run ends");
}

void bind_cadence(OptionTable& table, TrainConfig& train) {
  table.add("train", "minutes", train.minutes, "after so many the run stops, with a checkpoint; 0: no limit");
  table.add("train", "validate_every", train.validate_every, "steps from one validation to the next; 0: at the end alone");
  table.add("train", "save_every", train.save_every, "steps from one checkpoint to the next; 0: at the end alone");
  table.add("train", "save_last", train.save_last, "a checkpoint at the end; without it a run that only measures leaves its metrics alone");
  table.add("train", "keep", train.keep, "how many of the newest checkpoints are kept");
  table.add("train", "check_replicas", train.check_replicas, "steps from one comparison of all replicas to the next; 0: never");
  table.add("train", "log_every", train.log_every, "steps from one progress line to the next when the output is no terminal");
}

}  // namespace

void RunOptions::bind(OptionTable& table, const std::string& samples) {
  placement.bind(table);
  numerics.bind(table);
  table.add("run", "out", train.out, "directory of the run: metrics and checkpoints");
  bind_trace(table, train.trace);
  table.add("run", "seed", train.seed, "of initial values, sample order and dropout");
  communication.bind(table);
  table.add("train", "steps", train.steps, "optimizer steps");
  table.add("train", "batch", train.batch, samples + " a step, over the whole grid");
  table.add("train", "micro_batch", train.micro_batch, samples + " of a rank in one forward; 0: as many as need no accumulation");
  bind_optimizer(table, train);
  bind_cadence(table, train);
}

at::ScalarType scalar_type(Precision precision) {
  switch (precision) {
    case Precision::bf16:
      return at::kBFloat16;
    case Precision::fp16:
      return at::kHalf;
    case Precision::fp64:
      return at::kDouble;
    default:
      return at::kFloat;
  }
}

}  // namespace axonn
