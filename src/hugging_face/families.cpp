#include <algorithm>
#include <array>
#include <string_view>

#include "axonn/core/join.hpp"
#include "axonn/hugging_face/config_file.hpp"
#include "hugging_face/config_json.hpp"
#include "hugging_face/mathematics.hpp"

namespace axonn {
namespace {

DecoderShape gpt2(const ConfigJson& file) {
  if (file.flag_or("add_cross_attention", false)) file.refuse("with cross attention");
  return {.layers = file.size("n_layer"),
          .hidden = file.size("n_embd"),
          .heads = file.size("n_head"),
          .mlp_hidden = file.size_or("n_inner", 0),
          .sequence = file.size("n_positions"),
          .vocabulary = file.size("vocab_size"),
          .tied_head = file.flag_or("tie_word_embeddings", true)};
}

// The keys that all others share, of a network without positions and biases.
DecoderShape common(const ConfigJson& file, std::string_view mlp, bool tied) {
  return rotated({.layers = file.size("num_hidden_layers"),
                  .hidden = file.size("hidden_size"),
                  .heads = file.size("num_attention_heads"),
                  .mlp_hidden = file.size(mlp),
                  .sequence = file.size("max_position_embeddings"),
                  .vocabulary = file.size("vocab_size"),
                  .tied_head = file.flag_or("tie_word_embeddings", tied)});
}

DecoderShape opt(const ConfigJson& file) {
  DecoderShape shape = common(file, "ffn_dim", true);
  if (file.size_or("word_embed_proj_dim", shape.hidden) != shape.hidden) file.refuse("whose embedding is projected");
  if (!file.flag_or("do_layer_norm_before", true)) file.refuse("with norms after its layers");
  if (!file.flag_or("enable_bias", true) || !file.flag_or("layer_norm_elementwise_affine", true))
    file.refuse("without biases or without weights in its norms");
  shape.positions = shape.sequence + 2;  // the first two rows are for padding
  shape.qkv_bias = shape.projection_bias = shape.mlp_bias = shape.norm_bias = true;
  return shape;
}

DecoderShape gpt_neox(const ConfigJson& file) {
  DecoderShape shape = common(file, "intermediate_size", false);
  shape.qkv_bias = shape.projection_bias = file.flag_or("attention_bias", true);
  shape.mlp_bias = shape.norm_bias = true;
  return shape;
}

// Llama and what follows it: a gated MLP, rotated queries and keys, norms without bias.
struct LlamaTerms {
  int64_t kv_heads = 0, head_dim = 0;  // if missing; 0: heads, hidden / heads
  bool tied = false, qkv_bias = false, qk_norm = false;
  int64_t block_norms = 2;
};

DecoderShape llama_like(const ConfigJson& file, const LlamaTerms& terms) {
  DecoderShape shape = common(file, "intermediate_size", terms.tied);
  shape.kv_heads = file.size_or("num_key_value_heads", terms.kv_heads);
  shape.head_dim = file.size_or("head_dim", terms.head_dim);
  shape.gated = true;
  shape.qk_norm = terms.qk_norm;
  shape.block_norms = terms.block_norms;
  shape.projection_bias = file.flag_or("attention_bias", false);
  shape.qkv_bias = terms.qkv_bias || shape.projection_bias;
  shape.mlp_bias = file.flag_or("mlp_bias", false);
  return shape;
}

// `windowed`: the blocks with a window, unless the file lists the type of every block.
DecoderShape with_window(const ConfigJson& file, DecoderShape shape, int64_t window, int64_t windowed) {
  const auto listed = file.find_places("layer_types", "sliding_attention");
  if (listed) windowed = static_cast<int64_t>(listed->size());
  if (window == 0 || windowed == 0) return shape;
  shape.window = window;
  shape.windowed_layers = std::min(windowed, shape.layers);
  return shape;
}

// Qwen's window: only if it is switched on, from one block on.
DecoderShape with_late_window(const ConfigJson& file, const DecoderShape& shape) {
  if (!file.flag_or("use_sliding_window", false)) return shape;
  const int64_t late = std::max<int64_t>(shape.layers - file.count_or("max_window_layers", 28), 0);
  return with_window(file, shape, file.window_or("sliding_window", 4096), late);
}

DecoderShape llama(const ConfigJson& file) { return llama_like(file, {}); }

DecoderShape mistral(const ConfigJson& file) {
  const DecoderShape shape = llama_like(file, {.kv_heads = 8});
  return with_window(file, shape, file.window_or("sliding_window", 4096), shape.layers);
}

DecoderShape qwen2(const ConfigJson& file) {
  return with_late_window(file, llama_like(file, {.kv_heads = 32, .qkv_bias = true}));
}

DecoderShape qwen3(const ConfigJson& file) {
  return with_late_window(file, llama_like(file, {.kv_heads = 32, .head_dim = 128, .qk_norm = true}));
}

DecoderShape gemma(const ConfigJson& file) { return llama_like(file, {.kv_heads = 16, .head_dim = 256, .tied = true}); }

DecoderShape gemma2(const ConfigJson& file) {
  const auto shape = llama_like(file, {.kv_heads = 4, .head_dim = 256, .tied = true, .block_norms = 4});
  return with_window(file, shape, file.window_or("sliding_window", 4096), (shape.layers + 1) / 2);
}

DecoderShape gemma3(const ConfigJson& file) {
  const auto shape =
      llama_like(file, {.kv_heads = 4, .head_dim = 256, .tied = true, .qk_norm = true, .block_norms = 4});
  const int64_t every = file.size_or("sliding_window_pattern", 6);
  return with_window(file, shape, file.window_or("sliding_window", 4096), shape.layers - shape.layers / every);
}

DecoderShape mixtral(const ConfigJson& file) {
  DecoderShape shape = llama_like(file, {.kv_heads = 8});
  shape.experts = file.size_or("num_local_experts", 8);
  shape.token_experts = file.size_or("num_experts_per_tok", 2);
  shape.expert_hidden = shape.mlp_hidden;
  return with_window(file, shape, file.window_or("sliding_window", 0), shape.layers);
}

// Of the blocks, those whose number is not in mlp_only_layers and is a multiple of
// decoder_sparse_step have experts.
DecoderShape with_qwen_experts(const ConfigJson& file, DecoderShape shape, int64_t experts, int64_t taken) {
  shape.experts = file.size_or("num_experts", file.size_or("num_local_experts", experts));
  shape.token_experts = file.size_or("num_experts_per_tok", taken);
  shape.expert_hidden = file.size("moe_intermediate_size");
  const int64_t only = file.length_or("mlp_only_layers", 0), step = file.size_or("decoder_sparse_step", 1);
  if (only > 0 && step > 1) file.refuse("with both mlp_only_layers and decoder_sparse_step");
  shape.dense_layers = shape.layers - shape.layers / step + only;
  return shape;
}

DecoderShape qwen2_moe(const ConfigJson& file) {
  DecoderShape shape = llama_like(file, {.kv_heads = 16, .qkv_bias = file.flag_or("qkv_bias", true)});
  shape = with_qwen_experts(file, shape, 60, 4);
  shape.shared_hidden = file.size("shared_expert_intermediate_size");
  return with_late_window(file, shape);
}

DecoderShape qwen3_moe(const ConfigJson& file) {
  const DecoderShape shape = llama_like(file, {.kv_heads = 4, .qk_norm = true});
  return with_late_window(file, with_qwen_experts(file, shape, 128, 8));
}

struct Family {
  std::string_view model_type;
  DecoderShape (*read)(const ConfigJson&);
  // Rotation, epsilon and activation; null: it cannot be trained.
  DecoderShape (*with_mathematics)(const ConfigJson&, DecoderShape) = nullptr;
};

constexpr std::array kFamilies = {
    Family{"gpt2", gpt2, mathematics_of_gpt2},
    Family{"opt", opt},
    Family{"gpt_neox", gpt_neox},
    Family{"llama", llama, mathematics_of_llama},
    Family{"mistral", mistral, mathematics_of_llama},
    Family{"qwen2", qwen2, mathematics_of_llama},
    Family{"qwen3", qwen3, mathematics_of_llama},
    Family{"gemma", gemma},
    Family{"gemma2", gemma2},
    Family{"gemma3_text", gemma3},
    Family{"mixtral", mixtral},
    Family{"qwen2_moe", qwen2_moe},
    Family{"qwen3_moe", qwen3_moe},
};

const Family& family_of(const ConfigJson& file) {
  const std::string type = file.model_type();
  const auto family = std::ranges::find(kFamilies, type, &Family::model_type);
  if (family == kFamilies.end()) file.refuse("of model_type \"" + type + "\"");
  return *family;
}

}  // namespace

DecoderShape read_config_sizes(const std::filesystem::path& path) {
  const ConfigJson file(path);
  const Family& family = family_of(file);
  DecoderShape shape = family.read(file);
  shape.foreign = family.with_mathematics == nullptr;
  try {
    return shape.foreign ? shape : family.with_mathematics(file, shape);
  } catch (const NotTrained&) {
    shape.foreign = true;
    return shape;
  }
}

std::string family_names() {
  return join(kFamilies, ", ", [](const Family& family) { return family.model_type; });
}

HuggingFaceConfig read_config(const ConfigJson& file) {
  const std::string type = file.model_type();
  const auto family = std::ranges::find(kFamilies, type, &Family::model_type);
  if (family == kFamilies.end() || family->with_mathematics == nullptr)
    file.refuse_to_train("of model_type \"" + type + "\"");
  const DecoderShape shape = family->with_mathematics(file, family->read(file));
  check_decoder(shape);
  return {.model_type = type, .shape = shape, .text = file.text()};
}

std::vector<int32_t> read_end_tokens(const std::filesystem::path& directory) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    if (!std::filesystem::exists(directory / name)) continue;
    const std::vector<int64_t> tokens = ConfigJson(directory / name).counts("eos_token_id");
    if (!tokens.empty()) return {tokens.begin(), tokens.end()};
  }
  return {};
}

HuggingFaceConfig read_config(const std::filesystem::path& path) { return read_config(ConfigJson(path)); }

std::string trained_family_names() {
  std::vector<std::string_view> names;
  for (const Family& family : kFamilies)
    if (family.with_mathematics != nullptr) names.push_back(family.model_type);
  return join(names, ", ");
}

}  // namespace axonn
