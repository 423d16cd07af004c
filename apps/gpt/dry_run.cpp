#include <cstdio>

#include <axonn/core/error.hpp>
#include <axonn/core/text.hpp>
#include <axonn/model/gpt_model.hpp>
#include <axonn/perfmodel/memory.hpp>
#include <axonn/train/schedule.hpp>

#include "commands.hpp"

namespace {

using axonn::bytes_text;

void print_memory(const char* part, int64_t bytes) { std::printf("  %-22s %12s\n", part, bytes_text(static_cast<double>(bytes)).c_str()); }

std::string join(const std::vector<int64_t>& sizes) {
  std::string text;
  for (const int64_t size : sizes) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

}  // namespace

int run_dry(const GptOptions& options) {
  const axonn::GridShape shape = options.shape();
  axonn::GptConfig config = options.model;
  if (config.vocabulary == 0) config.vocabulary = 256;
  axonn::Context context = axonn::Context::plan(shape, options.context());
  axonn::Gpt model(context, config);
  const axonn::Parameters parameters = context.materialize(model, static_cast<uint64_t>(options.train.seed));
  const int64_t groups = int64_t{shape.z} * shape.data;
  const int64_t micro_batch = options.train.micro_batch > 0 ? options.train.micro_batch : std::max<int64_t>(options.train.batch / groups, 1);
  const axonn::BatchPlan plan = axonn::plan_batch(options.train.batch, micro_batch, shape, context.at());

  std::printf("%s parameters on %s (%lld ranks), rank 0 holds\n\n", axonn::with_unit(static_cast<double>(parameters.global_numel())).c_str(),
              shape.to_string().c_str(), static_cast<long long>(shape.ranks()));
  std::printf("  %-28s %-44s %-22s %12s\n", "parameter", "global shape / axis", "block on a rank", "stored");
  for (const axonn::ArenaSlot& slot : parameters.arena().slots())
    std::printf("  %-28s %-44s %-22s %12lld\n", slot.name.c_str(), slot.spec.to_string().c_str(), join(slot.block_shape).c_str(),
                static_cast<long long>(slot.stored));
  for (const axonn::ArenaSection& section : parameters.arena().sections())
    std::printf("\narena, %s, %s: %lld elements", section.over_z ? "cut over z" : "whole on every z", section.decay ? "decayed" : "not decayed",
                static_cast<long long>(section.range.size()));

  const int64_t element = static_cast<int64_t>(c10::elementSize(options.dtype));
  const axonn::MemoryPrediction memory = axonn::predict_memory(
      config.shape(), shape, {.micro_batch = micro_batch, .element_bytes = element, .optimizer = options.train.optimizer, .dropout = config.dropout > 0});
  std::printf("\n\nbatch %lld = %lld micro-batches x %lld sequences a rank x z %d x data %d\n\npredicted memory a rank\n", static_cast<long long>(plan.batch),
              static_cast<long long>(plan.micro_batches), static_cast<long long>(plan.micro_batch), shape.z, shape.data);
  print_memory("weights", memory.weight_bytes);
  print_memory("gradients", memory.gradient_bytes);
  print_memory("optimizer", memory.optimizer_bytes);
  print_memory("gathered weights", memory.gathered_bytes);
  print_memory("activations", memory.activation_bytes);
  print_memory("logits", memory.logits_bytes);
  print_memory("a block's backward", memory.block_bytes);
  print_memory("total", memory.total_bytes());
  return 0;
}
