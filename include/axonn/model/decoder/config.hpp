#pragma once

#include <cstdint>
#include <string_view>

#include "axonn/core/names.hpp"
#include "axonn/grid/grid_shape.hpp"
#include "axonn/layers/low_rank_options.hpp"
#include "axonn/network/decoder/decoder_shape.hpp"

namespace axonn {

// A decoder of pre-norm blocks: a GPT-2, a Llama, Mistral or Qwen, as its shape says.
// Products of a block that have a low-rank product beside them.
enum class LoraTargets : uint8_t { qkv, attention, mlp, all };

template <>
struct Names<LoraTargets> {
  static constexpr Named<LoraTargets> all[] = {{"qkv", LoraTargets::qkv},
                                               {"attention", LoraTargets::attention},
                                               {"mlp", LoraTargets::mlp},
                                               {"all", LoraTargets::all}};
};

// Whether a parameter is one of a low-rank product: "h.0.attn.qkv.lora_a".
inline bool is_adapter(std::string_view name) { return name.ends_with(".lora_a") || name.ends_with(".lora_b"); }

struct DecoderConfig {
  DecoderShape shape = {.layers = 4, .hidden = 128, .heads = 4, .sequence = 128, .vocabulary = 256};
  double dropout = 0;               // after the embeddings, on attention probabilities, on both branches of a block
  int64_t checkpoint_every = 0;     // activation checkpointing: every n-th block keeps only its input; 0: no block
  bool checkpoint_offload = false;  // keep that input in host memory
  LowRankOptions low_rank = {};     // beside the products of `low_rank_targets`; they may be trained in their place
  LoraTargets low_rank_targets = LoraTargets::all;

  bool adapts_qkv() const { return low_rank.rank > 0 && low_rank_targets != LoraTargets::mlp; }
  bool adapts_projection() const { return adapts_qkv() && low_rank_targets != LoraTargets::qkv; }
  bool adapts_mlp() const {
    return low_rank.rank > 0 && (low_rank_targets == LoraTargets::mlp || low_rank_targets == LoraTargets::all);
  }
  bool checkpointed(int64_t block) const { return checkpoint_every > 0 && block % checkpoint_every == 0; }
};

// Throws UserError unless the sizes fit each other and the grid (heads % x, kv_heads % x, hidden %
// y), and for parts that cannot be trained.
void check_decoder(const DecoderConfig& config, const GridShape& grid);

}  // namespace axonn
