#include "gpt_options.hpp"

#include <axonn/core/error.hpp>
#include <axonn/perfmodel/gpt_presets.hpp>
#include <axonn/train/verification.hpp>

void GptOptions::become_small() {
  model = {.layers = 2, .hidden = 48, .heads = 12, .sequence = 16, .vocabulary = 101};
  dtype = at::kDouble;
  train.batch = 48;
  train.steps = 5;
  train.learning_rate = axonn::VerificationOptions().learning_rate;
}

void GptOptions::bind(axonn::OptionTable& table) {
  using axonn::OptimizerKind;
  table.add("model", "model", preset, "preset: gpt-tiny, gpt-124m, gpt5b, gpt10b, gpt20b, gpt40b, gpt80b; other keys of [model] override it");
  table.add("model", "layers", model.layers, "transformer blocks");
  table.add("model", "hidden", model.hidden, "features of the residual stream");
  table.add("model", "heads", model.heads, "attention heads");
  table.add("model", "sequence", model.sequence, "longest sequence", "tokens");
  table.add("model", "vocab", model.vocabulary, "vocabulary; 0: the tokenizer's");
  table.add("model", "tied", model.tied_head, "the head's weight is the token embedding");
  table.add("model", "dropout", model.dropout, "after the embeddings, on attention probabilities, on both branches of a block");

  table.add("data", "data", data, "text files, or directories read recursively");
  table.add_choice("data", "tokenizer", tokenizer, {{"bytes", axonn::TokenizerKind::bytes}, {"chars", axonn::TokenizerKind::chars}}, "how text becomes tokens");
  table.add("data", "validation_fraction", validation_fraction, "last part of the text, held out");

  table.add("run", "grid", grid, "x by y by z by data, for instance 2x1x2x1; the product is the number of ranks");
  table.add("run", "order", order, "axes from the innermost: neighbours along the first are neighbouring ranks");
  table.add_choice("run", "dtype", dtype, {{"fp32", at::kFloat}, {"fp64", at::kDouble}}, "of weights, activations and gradients");
  table.add_choice("run", "device", device, {"cpu", "cuda"}, "where tensors live");
  table.add("run", "out", train.out, "directory of the run: metrics and checkpoints");
  table.add("run", "seed", train.seed, "of initial values, sample order and dropout");

  table.add("train", "steps", train.steps, "optimizer steps");
  table.add("train", "batch", train.batch, "a step over the whole grid", "sequences");
  table.add("train", "micro_batch", train.micro_batch, "a rank a forward; 0: no accumulation", "sequences");
  table.add_choice("train", "optimizer", train.optimizer,
                   {{"adamw", OptimizerKind::adamw}, {"sgd", OptimizerKind::sgd}, {"sgd-momentum", OptimizerKind::sgd_momentum}}, "update rule");
  table.add("train", "learning_rate", train.learning_rate, "greatest, after the warm-up");
  table.add("train", "learning_rate_end", train.learning_rate_end, "at the last step, after the cosine");
  table.add("train", "warmup", train.warmup, "linear", "steps");
  table.add("train", "weight_decay", train.weight_decay, "of matrices; vectors are not decayed");
  table.add("train", "beta1", train.beta1, "AdamW");
  table.add("train", "beta2", train.beta2, "AdamW");
  table.add("train", "epsilon", train.epsilon, "AdamW");
  table.add("train", "momentum", train.momentum, "of sgd-momentum");
  table.add("train", "clip", train.clip, "greatest global norm of the gradient; 0: never clipped");
  table.add("train", "minutes", train.minutes, "stop after that time, with a checkpoint; 0: no limit", "minutes");
  table.add("train", "validate_every", train.validate_every, "0: at the end alone", "steps");
  table.add("train", "save_every", train.save_every, "0: at the end alone", "steps");
  table.add("train", "keep", train.keep, "newest checkpoints that are kept");
  table.add("train", "check_replicas", train.check_replicas, "compare all replicas so often; 0: never", "steps");
  table.add("train", "log_every", train.log_every, "a progress line so often when the output is no terminal", "steps");
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

axonn::ContextOptions GptOptions::context() const {
  return {.dtype = dtype, .device = device == "cuda" ? c10::Device(c10::kCUDA) : c10::Device(c10::kCPU), .order = axonn::parse_axis_order(order)};
}
