#include <axonn/network/gpt/gpt_memory.hpp>
#include "gpt_options.hpp"

#include <axonn/core/error.hpp>
#include <axonn/layers/attention.hpp>
#include <axonn/network/gpt/gpt_presets.hpp>

namespace {

// Far beyond any network; within them no product of sizes overflows.
constexpr int64_t kMostLayers = 10'000;
constexpr int64_t kMostHidden = 1 << 20;
constexpr int64_t kMostTokens = 1 << 24;  // of a sequence, of a vocabulary
constexpr double kMostElements = 1e17;    // of activations of a step

}  // namespace

void GptOptions::bind(axonn::OptionTable& table) {
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

  run.bind(table, "sequences");
  table.add("overlap", "split_forward", model.split_forward,
            "a block takes turns on so many parts of the micro-batch: one's all-reduces move while another computes (not the same bits)");
  table.add("train", "activation_checkpoint", model.checkpoint_every,
            "every n-th block keeps only its input and is run again in backward; 1: all, 0: none");
  table.add("train", "activation_offload", model.checkpoint_offload, "inputs of checkpointed blocks are kept in the host's memory");
}

void GptOptions::apply_preset(const axonn::OptionTable& table) {
  if (preset.empty()) return;
  const axonn::GptShape& shape = axonn::find_gpt_preset(preset).shape;
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

axonn::GptConfig GptOptions::whole_model() const {
  axonn::GptConfig config = model;
  if (config.vocabulary == 0) config.vocabulary = 256;
  return config;
}

void GptOptions::check() const {
  const axonn::GptConfig config = whole_model();
  const auto at_most = [](int64_t value, int64_t most, const char* name) {
    AXONN_CHECK(value <= most, "gpt.options", name, " must be at most ", most, ", got ", value);
  };
  axonn::check_train(run.train);
  axonn::check_gpt(config, run.shape());
  AXONN_CHECK(validation_fraction >= 0 && validation_fraction < 1, "gpt.options", "validation_fraction must be in [0, 1), got ",
              validation_fraction);
  at_most(config.layers, kMostLayers, "layers");
  at_most(config.hidden, kMostHidden, "hidden");
  at_most(config.sequence, kMostTokens, "sequence");
  at_most(config.vocabulary, kMostTokens, "vocab");
  run.check();
  const double tokens = static_cast<double>(run.train.batch) * static_cast<double>(config.sequence);
  const double elements = tokens * (static_cast<double>(config.layers * (20 * config.hidden + 3 * config.heads * config.sequence)) +
                                    static_cast<double>(3 * config.vocabulary));
  AXONN_CHECK(elements <= kMostElements, "gpt.options", "a step of batch ", run.train.batch, " x sequence ", config.sequence, " over ",
              config.layers, " layers of hidden ", config.hidden, " has ", elements, " activations; that is beyond every machine");
}

axonn::MemoryPrediction GptOptions::predict() const {
  axonn::MemoryOptions memory = run.memory();
  memory.dropout = model.dropout > 0;
  memory.attention_block = axonn::attention_block(model.sequence, run.context().device);
  memory.checkpoint_every = model.checkpoint_every;
  return axonn::predict_memory(whole_model().shape(), run.shape(), memory);
}
