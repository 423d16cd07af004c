#include "axonn/program/run_options.hpp"

#include <array>
#include <charconv>

#include "axonn/config/codecs.hpp"
#include "axonn/core/join.hpp"
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
    if (programs.empty()) return "ring";
    return join(programs, ";", [](const ReductionProgram& program) { return program.to_string(); });
  }
  static std::string type() { return "TEXT"; }
};

template <>
struct Codec<ScalarSetting> {
  static ScalarSetting parse(std::string_view text, std::string_view what) {
    const size_t equals = text.find('=');
    const std::string_view number = equals == std::string_view::npos ? "" : text.substr(equals + 1);
    ScalarSetting setting{std::string(text.substr(0, equals))};
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), setting.value);
    AXONN_CHECK(error == std::errc() && end == number.data() + number.size() && !setting.name.empty(), "config.options",
                what, " must be NAME=NUMBER, such as beta2=0.99, got '", text, "'");
    return setting;
  }
  static std::string print(const ScalarSetting& setting) {
    std::array<char, 32> text{};
    const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), setting.value);
    return setting.name + "=" + std::string(text.data(), end);
  }
  static std::string type() { return "TEXT"; }
};

void PlacementOptions::bind(OptionTable& table) {
  table.add("run", "grid", grid,
            "x, y, z and data ranks, such as 2x1x2x1; the product is the number of ranks; auto: the planner's best for "
            "--machine");
  table.add(
      "run", "machine", machine,
      "for --grid auto, --reduction auto and --dry-run: a preset of axonn-config such as perlmutter, or a file of "
      "`axonn-config calibrate`");
  table.add("run", "order", order, "axes, innermost first: neighbours along the first axis are neighbouring ranks");
  table.for_experts({"run.order"});
}

void NumericsOptions::bind(OptionTable& table) {
  table.add("run", "dtype", dtype,
            "type of weights and activations; with bf16 and fp16, master weights and optimizer state are fp32");
  table.add("run", "gradient_dtype", gradient_dtype,
            "type of sums of weight gradients with dtype bf16 or fp16: fp32 (auto) or as dtype");
  table.add("run", "gemm", gemm,
            "LibTorch's matrix product on a CPU; auto: the faster one for each use and size, measured at start and "
            "kept on resuming");
  table.add("run", "device", device, "device of the tensors");
  table.add("run", "tf32", gpu_kernels.tf32, "products and convolutions in TF32, with dtype fp32 on a GPU");
  table.add("run", "deterministic", gpu_kernels.deterministic,
            "only kernels that give the same bits each time, on a GPU (slower); on a CPU all do");
  table.add("run", "cudnn_benchmark", gpu_kernels.cudnn_benchmark,
            "cuDNN measures its kernels for each shape of a convolution, on a GPU (first step slower)");
  table.add("run", "kernels", kernels,
            "axonn's own kernels in the place of LibTorch's, on a GPU (docs/gpu.md): " + switches_help<KernelChoice>());
  table.for_experts(
      {"run.gradient_dtype", "run.gemm", "run.tf32", "run.deterministic", "run.cudnn_benchmark", "run.kernels"});
}

c10::Device NumericsOptions::c10_device() const {
  return device == DeviceKind::cuda ? c10::Device(c10::kCUDA) : c10::Device(c10::kCPU);
}

void CommunicationOptions::bind(OptionTable& table) {
  constexpr int64_t kMostBucket = int64_t{1} << 50, kMostPrefetch = 1000, kMostParts = 1 << 20;
  table.add("overlap", "overlap", overlap.switches,
            "communication beside computation: " + switches_help<OverlapSwitches>());
  table.add("overlap", "gather_cache", overlap.cache_budget,
            "gathered weights kept for backward: bytes, such as 512M, or a count such as '8 layers'");
  table.add("overlap", "bucket", overlap.bucket_bytes, "bytes of gradients per message over data",
            {.least = 0, .most = kMostBucket, .suffixes = Suffixes::binary});
  table.add("overlap", "prefetch", overlap.prefetch,
            "number of weights gathered before their use; none if --overlap lacks all-gather",
            {.least = 1, .most = kMostPrefetch});
  table.add("overlap", "reduction", reduction,
            "how gradients are summed over data and reduce-scattered over Z: ring; auto: the fastest programs for "
            "--machine; or programs printed by `axonn-config synthesize --json`, joined by ';'");
  table.add("overlap", "split_forward", forward.split,
            "parts of the micro-batch in a block: one part's all-reduces overlap another part's computation (results "
            "differ in rounding)",
            {.least = 1, .most = kMostParts});
  table.add("overlap", "linear_schedule", forward.linear,
            "row-parallel layers and convolutions over X and Y, on a CPU: product, all-reduce, then bias, dropout and "
            "residual (mm-ar-c); the latter at the owner of an element (mm-rs-c-ag); the same with the collective "
            "beside the product (overlap); auto: overlap between nodes for products of 256K or more, else mm-ar-c");
  table.add("overlap", "attention_rows", forward.attention_rows,
            "ranks with the same heads divide attention's rows of queries; auto: as measured, or by an "
            "estimate on GPUs and with --gemm (changes rounding)");
  table.add("overlap", "norm_rows", forward.norm_rows,
            "ranks along X divide the rows of norms, dropout and residual sums of a decoder; auto: if all groups "
            "of them share memory or are GPUs (changes rounding)");
  table.add("overlap", "context", forward.context,
            "ranks along Z that divide each sequence of a decoder: keys and values go round them (changes rounding); "
            "divides z; 0: the best, with --grid auto",
            {.least = kAutomaticContext, .most = kMostParts});
  table.for_experts({"overlap.gather_cache", "overlap.bucket", "overlap.prefetch", "overlap.reduction",
                     "overlap.split_forward", "overlap.linear_schedule"});
}

namespace {

void bind_trace(OptionTable& table, TraceOptions& trace) {
  table.add("run", "trace", trace.file,
            "file for ui.perfetto.dev: computation, messages and waits of the ranks in a few steps");
  table.add("run", "trace_steps", trace.steps, "number of steps in the trace, after the first two");
  table.add("run", "trace_ranks", trace.ranks, "number of ranks in the trace, from the first");
  table.for_experts({"run.trace_steps", "run.trace_ranks"});
}

// The name of a rule, or the file of a program.
TextValue optimizer_value(OptimizerSettings& optimizer) {
  return {.print = [&] { return optimizer.file.empty() ? std::string(to_string(optimizer.kind)) : optimizer.file; },
          .parse =
              [&](std::string_view text, std::string_view what, bool store) {
                const bool file = text.find('/') != std::string_view::npos || text.ends_with(".program");
                const OptimizerKind kind = file ? optimizer.kind : parse_name<OptimizerKind>(text, what);
                if (!store) return;
                optimizer.file = file ? text : "";
                optimizer.kind = kind;
              },
          .type = all_names<OptimizerKind>("|") + "|FILE"};
}

// A schedule, or auto.
TextValue schedule_value(std::optional<UpdateSchedule>& schedule) {
  return {.print = [&] { return schedule ? std::string(to_string(*schedule)) : "auto"; },
          .parse =
              [&](std::string_view text, std::string_view what, bool store) {
                std::optional<UpdateSchedule> parsed;
                if (text != "auto") parsed = parse_name<UpdateSchedule>(text, what);
                if (store) schedule = parsed;
              },
          .type = "auto|" + all_names<UpdateSchedule>("|")};
}

void bind_optimizer(OptionTable& table, TrainConfig& train) {
  table.add_text("train", "optimizer", optimizer_value(train.optimizer),
                 "update rule, or the file of a program of one (docs/coconet.md)");
  table.add_text(
      "train", "optimizer_schedule", schedule_value(train.optimizer.schedule),
      "ar-opt: every replica updates everything; rs-opt-ag: each updates its part and keeps its part of the state; "
      "fuse: the same inside the collectives; auto: on CPUs with data > 1 the faster one of fuse and rs-opt-ag, "
      "measured at start and kept on resuming, with clip 0 rs-opt-ag; else ar-opt");
  table.add("train", "optimizer_set", train.optimizer.set, "values of the program's scalars, such as beta2=0.99");
  table.add("train", "learning_rate", train.optimizer.learning_rate, "peak rate, after the warm-up");
  table.add("train", "learning_rate_end", train.learning_rate_end, "rate at the last step, if the schedule falls");
  table.add("train", "learning_rate_schedule", train.learning_rate_schedule,
            "rate after the warm-up: by a cosine or a line to learning_rate_end; constant; wsd: constant, then a line");
  table.add_absent("learning_rate_schedule", to_string(LearningRateSchedule::cosine));
  table.add("train", "learning_rate_decay", train.learning_rate_decay, "wsd: share of all steps that the line takes");
  table.add("train", "warmup", train.warmup, "steps of the linear warm-up");
  table.add("train", "weight_decay", train.optimizer.weight_decay, "weight decay of matrices; vectors are not decayed");
  table.add("train", "beta1", train.optimizer.beta1, "decay of the mean of gradients, if the rule has one");
  table.add("train", "beta2", train.optimizer.beta2, "decay of the mean of squared gradients, if the rule has one");
  table.add("train", "epsilon", train.optimizer.epsilon, "added to the square root of the mean of squared gradients");
  table.add("train", "momentum", train.optimizer.momentum, "momentum of sgd-momentum");
  table.add("train", "ema", train.optimizer.ema,
            "decay of averaged weights for validation, sampling and generation, such as 0.999; 0: no average");
  table.add("train", "clip", train.clip, "maximum global norm of the gradient; 0: no clipping");
  table.add("train", "loss_scale", train.loss_scale.initial, "fp16: initial factor of the loss for the backward pass");
  table.add("train", "loss_scale_interval", train.loss_scale.interval,
            "fp16: steps without an overflow after which the scale doubles");
  table.add("train", "on_spike", train.spikes.action,
            "a step whose loss or gradient norm is more than spike_factor times the median: off, skip its update, or "
            "rollback to the newest checkpoint and go on behind its batch");
  table.add("train", "spike_factor", train.spikes.factor, "how many times the median a spike is");
  table.add("train", "spike_window", train.spikes.window, "number of good steps in the median; from then on it guards");
  table.add("train", "most_skips", train.loss_scale.most_skips,
            "fp16: maximum of skipped steps in a row, each of which halves the scale");
  table.for_experts({"train.optimizer_schedule", "train.optimizer_set", "train.beta1", "train.beta2", "train.epsilon",
                     "train.momentum", "train.loss_scale", "train.loss_scale_interval", "train.on_spike",
                     "train.spike_factor", "train.spike_window", "train.most_skips"});
}

void bind_cadence(OptionTable& table, TrainConfig& train) {
  table.add("train", "minutes", train.minutes, "time after which the run stops with a checkpoint; 0: no limit");
  table.add("train", "validate_every", train.validate_every, "steps between validations; 0: only at the end");
  table.add("train", "save_every", train.save_every, "steps between checkpoints; 0: only at the end");
  table.add("train", "save_last", train.save_last, "write a checkpoint at the end; false: for runs that only measure");
  table.add("train", "save_async", train.save_async, "write checkpoints while training goes on; not with --cuda-graph");
  table.add("train", "save_files", train.save_files,
            "files of a checkpoint, each of several ranks; 0: one per rank, or per host for more than 256 ranks");
  table.add("train", "save_memory", train.save_memory,
            "maximum bytes per rank for copies of what is being saved, from 1M; 0: half of the host's free memory, "
            "divided by its ranks",
            {.least = 0, .suffixes = Suffixes::binary});
  table.add("train", "keep", train.keep, "number of newest checkpoints to keep");
  table.add("train", "check_replicas", train.check_replicas, "steps between comparisons of all replicas; 0: never");
  table.add("train", "log_every", train.log_every,
            "steps between progress lines when the output is not a terminal; 0: a line every 5 seconds");
  table.for_experts({"train.save_last", "train.save_async", "train.save_files", "train.save_memory",
                     "train.check_replicas", "train.log_every"});
}

}  // namespace

void RunOptions::bind(OptionTable& table, const std::string& samples) {
  placement.bind(table);
  numerics.bind(table);
  table.add("run", "out", train.out, "directory of the run: metrics and checkpoints");
  table.add("run", "choices", choices,
            "folder that keeps the measured schedule of the optimizer, per program, sizes, grid and machine, for later "
            "runs; empty: it is measured in every run");
  table.add("run", "tensorboard", train.tensorboard, "write TensorBoard's event files to the folder tb of the run");
  table.add("run", "metrics_file", train.metrics_file, "file with the newest metrics, for Prometheus; empty: none");
  bind_trace(table, train.trace);
  table.add("run", "seed", train.seed, "seed of initial values, sample order and dropout");
  communication.bind(table);
  table.add("train", "steps", train.steps, "optimizer steps");
  table.add("train", "batch", train.batch, samples + " per step, over the whole grid");
  table.add("train", "micro_batch", train.micro_batch,
            samples + " per rank per forward pass; 0: no gradient accumulation");
  table.add("train", "cuda_graph", train.cuda_graph,
            "from the fourth step on, launch a step at once, as a CUDA graph: on one GPU, with AdamW in fp32 or bf16");
  table.for_experts({"run.choices", "run.metrics_file", "train.cuda_graph"});
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
