#include <cstdio>
#include <string_view>

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

// All blocks are laid out alike.
bool is_first_of_its_kind(std::string_view name) { return !name.starts_with("h.") || name.starts_with("h.0."); }

}  // namespace

int run_dry(const GptOptions& options) {
  const axonn::GridShape shape = options.shape();
  axonn::GptConfig config = options.model;
  if (config.vocabulary == 0) config.vocabulary = 256;
  axonn::Context context = axonn::Context::plan(shape, options.context());
  axonn::Gpt model(context, config);
  const axonn::Parameters parameters = context.materialize(model, static_cast<uint64_t>(options.train.seed));
  const axonn::BatchPlan plan = axonn::plan_batch(options.train.batch, options.train.rows(shape), shape, context.at());

  std::printf("%s parameters on %s (%lld ranks), rank 0 holds\n\n",
              axonn::with_unit(static_cast<double>(parameters.global_numel())).c_str(), shape.to_string().c_str(),
              static_cast<long long>(shape.ranks()));
  std::printf("  %-28s %-44s %-22s %12s\n", "parameter", "global shape / axis", "block on a rank", "stored");
  for (const axonn::ArenaSlot& slot : parameters.arena().slots())
    if (is_first_of_its_kind(slot.name))
      std::printf("  %-28s %-44s %-22s %12lld\n", slot.name.c_str(), slot.spec.to_string().c_str(), join(slot.block_shape).c_str(),
                  static_cast<long long>(slot.stored));
  if (config.layers == 2) std::printf("  h.1: as h.0\n");
  if (config.layers > 2) std::printf("  h.1 .. h.%lld: as h.0\n", static_cast<long long>(config.layers - 1));
  for (const axonn::ArenaSection& section : parameters.arena().sections())
    std::printf("\narena, %s, %s: %lld elements", section.over_z ? "cut over z" : "whole on every z",
                section.decay ? "decayed" : "not decayed", static_cast<long long>(section.range.size()));

  const axonn::MemoryPrediction memory = options.predict();
  std::printf("\n\nbatch %lld = %lld micro-batches x %lld sequences a rank x z %d x data %d\n\npredicted memory a rank\n",
              static_cast<long long>(plan.batch), static_cast<long long>(plan.micro_batches), static_cast<long long>(plan.micro_batch),
              shape.z, shape.data);
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
