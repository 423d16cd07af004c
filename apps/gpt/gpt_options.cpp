#include "gpt_options.hpp"

#include <axonn/core/error.hpp>
#include <axonn/layers/attention.hpp>
#include <axonn/network/decoder/decoder_network.hpp>
#include <axonn/network/decoder/decoder_presets.hpp>
#include <axonn/perfmodel/network_options.hpp>

namespace {

constexpr int64_t kVocabularyOfBytes = 256;
constexpr double kMostElements = 1e17;  // elements of a step's activations: far beyond any run

}  // namespace

GptOptions::GptOptions() {
  run.train.out = "runs/gpt";
  model.shape.vocabulary = 0;
  table.add("model", "model", preset,
            "preset: " + axonn::preset_names<axonn::DecoderShape>() + "; other keys of [model] override it");
  axonn::bind_sizes(table, "model", model.shape, axonn::SizesFor::trainer);
  table.add("model", "dropout", model.dropout,
            "dropout rate after the embeddings, of attention probabilities, and of both branches of a block");

  table.add("data", "data", data, "text files, or directories read recursively");
  table.add("data", "tokenizer", tokenizer, "how text is split into tokens");
  table.add("data", "validation_fraction", validation_fraction, "fraction of the text, at its end, that is held out");

  run.bind(table, "sequences");
  table.add("train", "activation_checkpoint", model.checkpoint_every,
            "every n-th block keeps only its input and is recomputed in backward; 1: all, 0: none");
  table.add("train", "activation_offload", model.checkpoint_offload,
            "keep inputs of checkpointed blocks in host memory");
  table.for_experts({"train.activation_offload"});
}

void GptOptions::apply_preset() {
  if (!preset.empty()) axonn::fill_from_preset(table, model.shape, axonn::find_decoder_preset(preset).shape);
}

axonn::DecoderConfig GptOptions::whole_model() const {
  axonn::DecoderConfig config = model;
  if (config.shape.vocabulary == 0) config.shape.vocabulary = kVocabularyOfBytes;
  return config;
}

void GptOptions::check(const axonn::GridShape& grid) const {
  const axonn::DecoderConfig config = whole_model();
  axonn::check_decoder(config, grid);
  AXONN_CHECK(validation_fraction >= 0 && validation_fraction < 1, "gpt.options",
              "validation_fraction must be in [0, 1), got ", validation_fraction);
  const axonn::DecoderShape& shape = config.shape;
  const double tokens = static_cast<double>(run.train.batch) * static_cast<double>(shape.sequence);
  const double elements =
      tokens * (static_cast<double>(shape.layers * (20 * shape.hidden + 3 * shape.heads * shape.sequence)) +
                static_cast<double>(3 * shape.vocabulary));
  AXONN_CHECK(elements <= kMostElements, "gpt.options", "a step of batch ", run.train.batch, " x sequence ",
              shape.sequence, " over ", shape.layers, " layers of hidden ", shape.hidden, " has ", elements,
              " activations; that is beyond every machine");
}

axonn::MemoryPrediction GptOptions::predict(const axonn::RunPlan& plan) const {
  axonn::MemoryOptions memory = axonn::memory_options(plan);
  memory.dropout = model.dropout > 0;
  memory.attention_block = axonn::attention_block(model.shape.sequence, plan.context.device);
  memory.checkpoint_every = model.checkpoint_every;
  return axonn::predict_memory(whole_model().shape, plan.grid, memory);
}
