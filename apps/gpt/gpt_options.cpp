#include "gpt_options.hpp"

#include <sys/sysinfo.h>

#include <algorithm>

#include <axonn/core/error.hpp>
#include <axonn/core/text.hpp>
#include <axonn/layers/attention.hpp>
#include <axonn/perfmodel/gpt_presets.hpp>
#include <axonn/train/schedule.hpp>
#include <axonn/train/verification.hpp>

namespace {

// Far beyond any network; within them no product of sizes overflows.
constexpr int64_t kMostLayers = 10'000;
constexpr int64_t kMostHidden = 1 << 20;
constexpr int64_t kMostTokens = 1 << 24;  // of a sequence, of a vocabulary
constexpr int64_t kMostSequences = 1 << 30;
constexpr int64_t kMostRanks = 1 << 20;
constexpr int64_t kMostPrefetch = 1000;
constexpr int64_t kMostCacheBytes = int64_t{1} << 50;
constexpr double kMostElements = 1e17;  // of activations of a step

// With [model] vocab = 0 (the tokenizer's), before there is one.
axonn::GptConfig with_vocabulary(axonn::GptConfig config) {
  if (config.vocabulary == 0) config.vocabulary = 256;
  return config;
}

}  // namespace

void GptOptions::become_small() {
  model = {.layers = 2, .hidden = 48, .heads = 12, .sequence = 16, .vocabulary = 101};
  dtype = at::kDouble;
  train.batch = 48;
  train.steps = 5;
  train.learning_rate = axonn::VerificationOptions().learning_rate;
}

void GptOptions::bind(axonn::OptionTable& table) {
  using axonn::OptimizerKind;
  table.add("model", "model", preset,
            "preset: gpt-tiny, gpt-124m, gpt5b, gpt10b, gpt20b, gpt40b, gpt80b; other keys of [model] override it");
  table.add("model", "layers", model.layers, "transformer blocks");
  table.add("model", "hidden", model.hidden, "features of the residual stream");
  table.add("model", "heads", model.heads, "attention heads");
  table.add("model", "sequence", model.sequence, "tokens of the longest sequence");
  table.add("model", "vocab", model.vocabulary, "vocabulary; 0: the tokenizer's");
  table.add("model", "tied", model.tied_head, "the head's weight is the token embedding");
  table.add("model", "dropout", model.dropout, "after the embeddings, on attention probabilities, on both branches of a block");

  table.add("data", "data", data, "text files, or directories read recursively");
  table.add_choice("data", "tokenizer", tokenizer, {{"bytes", axonn::TokenizerKind::bytes}, {"chars", axonn::TokenizerKind::chars}},
                   "how text becomes tokens");
  table.add("data", "validation_fraction", validation_fraction, "last part of the text, held out");

  table.add("run", "grid", grid, "x by y by z by data, for instance 2x1x2x1; the product is the number of ranks");
  table.add("run", "order", order, "axes from the innermost: neighbours along the first are neighbouring ranks");
  table.add_choice("run", "dtype", dtype, {{"fp32", at::kFloat}, {"bf16", at::kBFloat16}, {"fp16", at::kHalf}, {"fp64", at::kDouble}},
                   "of weights and activations; with bf16 and fp16, master weights and optimizer state are fp32");
  table.add_choice("run", "gradient_dtype", gradient_dtype, {"auto", "fp32", "bf16", "fp16"},
                   "in which weight gradients are summed with dtype bf16 or fp16: fp32 (auto) or as dtype");
  table.add_choice("run", "gemm", gemm, {"auto", "mm", "onednn"},
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
  table.add("overlap", "split_forward", model.split_forward,
            "a block takes turns on so many parts of the micro-batch: one's all-reduces move while another computes (not the same bits)");

  table.add("train", "steps", train.steps, "optimizer steps");
  table.add("train", "batch", train.batch, "sequences a step, over the whole grid");
  table.add("train", "micro_batch", train.micro_batch, "sequences of a rank in one forward; 0: as many as need no accumulation");
  table.add("train", "activation_checkpoint", model.checkpoint_every,
            "every n-th block keeps only its input and is run again in backward; 1: all, 0: none");
  table.add("train", "activation_offload", model.checkpoint_offload, "inputs of checkpointed blocks are kept in the host's memory");
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
  table.add("train", "clip", train.clip, "greatest global norm of the gradient; 0: never clipped");
  table.add("train", "loss_scale", train.loss_scale.initial, "fp16: gradients are first computed for so many times the loss");
  table.add("train", "loss_scale_interval", train.loss_scale.interval, "fp16: steps without an overflow after which the scale doubles");
  table.add("train", "most_skips", train.loss_scale.most_skips, "fp16: steps skipped in a row, each halving the scale, before the run ends");
  table.add("train", "minutes", train.minutes, "after so many the run stops, with a checkpoint; 0: no limit");
  table.add("train", "validate_every", train.validate_every, "steps from one validation to the next; 0: at the end alone");
  table.add("train", "save_every", train.save_every, "steps from one checkpoint to the next; 0: at the end alone");
  table.add("train", "save_last", train.save_last, "a checkpoint at the end; without it a run that only measures leaves its metrics alone");
  table.add("train", "keep", train.keep, "how many of the newest checkpoints are kept");
  table.add("train", "check_replicas", train.check_replicas, "steps from one comparison of all replicas to the next; 0: never");
  table.add("train", "log_every", train.log_every, "steps from one progress line to the next when the output is no terminal");
}

void GptOptions::apply_preset(const axonn::OptionTable& table) {
  if (preset.empty()) return;
  const axonn::TransformerShape& shape = axonn::find_gpt_preset(preset).shape;
  const auto fill = [&](const char* key, auto& field, auto value) {
    if (table.source(key) == axonn::OptionTable::Source::fallback) field = value;
  };
  fill("layers", model.layers, shape.layers);
  fill("hidden", model.hidden, shape.hidden);
  fill("heads", model.heads, shape.heads);
  fill("sequence", model.sequence, shape.sequence);
  fill("vocab", model.vocabulary, shape.vocabulary);
  fill("tied", model.tied_head, shape.tied_head);
}

void GptOptions::bind_sampling(axonn::OptionTable& table) {
  table.add("generate", "checkpoint", checkpoint, "run directory (its newest checkpoint) or one checkpoint");
  table.add("generate", "prompt", prompt, "text to go on from; empty: a line break");
  table.add("generate", "tokens", sampling.tokens, "how many to add");
  table.add("generate", "temperature", sampling.temperature, "0: always the likeliest token");
  table.add("generate", "top_k", sampling.top_k, "draw from so many of the likeliest tokens; 0: from all");
  table.add("generate", "sampling_seed", sampling_seed, "of the draws");
}

void GptOptions::check() const {
  const axonn::GptConfig config = with_vocabulary(model);
  const axonn::GridShape grid_shape = shape();
  const auto at_most = [](int64_t value, int64_t most, const char* name) {
    AXONN_CHECK(value <= most, "gpt.options", name, " must be at most ", most, ", got ", value);
  };
  axonn::check_train(train);
  axonn::check_gpt(config, grid_shape);
  axonn::parse_axis_order(order);
  policy();
  AXONN_CHECK(gemm != "onednn" || axonn::gemm_available(axonn::GemmKernel::onednn, dtype, context().device), "gpt.options",
              "--gemm onednn multiplies fp32 and bf16 on a CPU alone, in a LibTorch that has it");
  AXONN_CHECK(validation_fraction >= 0 && validation_fraction < 1, "gpt.options", "validation_fraction must be in [0, 1), got ",
              validation_fraction);
  at_most(config.layers, kMostLayers, "layers");
  at_most(config.hidden, kMostHidden, "hidden");
  at_most(config.sequence, kMostTokens, "sequence");
  at_most(config.vocabulary, kMostTokens, "vocab");
  at_most(train.batch, kMostSequences, "batch");
  at_most(train.micro_batch, kMostSequences, "micro_batch");
  at_most(grid_shape.ranks(), kMostRanks, "the product of the grid");
  const double tokens = static_cast<double>(train.batch) * static_cast<double>(config.sequence);
  const double elements = tokens * (static_cast<double>(config.layers * (20 * config.hidden + 3 * config.heads * config.sequence)) +
                                    static_cast<double>(3 * config.vocabulary));
  AXONN_CHECK(elements <= kMostElements, "gpt.options", "a step of batch ", train.batch, " x sequence ", config.sequence, " over ",
              config.layers, " layers of hidden ", config.hidden, " has ", elements, " activations; that is beyond every machine");
  axonn::plan_batch(train.batch, train.rows(grid_shape), grid_shape, {});
}

axonn::MemoryPrediction GptOptions::predict() const {
  const axonn::OverlapPolicy overlapped = policy();
  const axonn::ArenaTypes types = axonn::Context::plan({}, context()).arena_types();
  return axonn::predict_memory(with_vocabulary(model).shape(), shape(),
                               {.micro_batch = train.rows(shape()),
                                .element_bytes = static_cast<int64_t>(c10::elementSize(dtype)),
                                .gradient_bytes = static_cast<int64_t>(c10::elementSize(types.gradients)),
                                .state_bytes = static_cast<int64_t>(c10::elementSize(types.master)),
                                .optimizer = train.optimizer,
                                .dropout = model.dropout > 0,
                                .attention_block = axonn::attention_block(model.sequence, context().device),
                                .checkpoint_every = model.checkpoint_every,
                                .gathered_blocks = 1 + (overlapped.all_gather ? overlapped.prefetch : 0),
                                .scattered_blocks = 1 + (overlapped.reduce_scatter ? overlapped.outstanding : 0),
                                .cache_bytes = overlapped.cache ? std::min(overlapped.cache_bytes, kMostCacheBytes) : 0});
}

void GptOptions::check_memory(int local_ranks) const {
  struct sysinfo machine {};
  if (device != "cpu" || sysinfo(&machine) != 0) return;
  const double present = (static_cast<double>(machine.totalram) + static_cast<double>(machine.totalswap)) * machine.mem_unit;
  const double needed = static_cast<double>(predict().total_bytes());
  AXONN_CHECK(needed * local_ranks <= present, "gpt.options", "a rank needs ", axonn::bytes_text(needed),
              " for this network and micro-batch, and ",
              local_ranks == 1 ? std::string("this machine has ") : axonn::detail::concatenate(local_ranks, " ranks share this machine's "),
              axonn::bytes_text(present), "; --dry-run prints the parts");
}

axonn::OverlapPolicy GptOptions::policy() const {
  AXONN_CHECK(prefetch >= 1 && prefetch <= kMostPrefetch, "gpt.options", "prefetch must be from 1 to ", kMostPrefetch, ", got ", prefetch,
              "; --overlap without all-gather gathers nothing ahead");
  axonn::OverlapPolicy result;
  result.set_switches(overlap);
  result.set_cache_budget(gather_cache);
  result.bucket_bytes = axonn::parse_count(bucket, "bucket");
  result.prefetch = static_cast<int>(prefetch);
  return result;
}

axonn::ContextOptions GptOptions::context() const {
  std::optional<at::ScalarType> sums;
  if (gradient_dtype != "auto") sums = gradient_dtype == "bf16" ? at::kBFloat16 : gradient_dtype == "fp16" ? at::kHalf : at::kFloat;
  return {.dtype = dtype,
          .gradient_dtype = sums,
          .device = device == "cuda" ? c10::Device(c10::kCUDA) : c10::Device(c10::kCPU),
          .order = axonn::parse_axis_order(order),
          .overlap = policy(),
          .gemm = gemm == "auto" ? axonn::GemmChoice() : axonn::GemmChoice(gemm)};
}
