#include "model/gguf/gguf_tensors.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <string_view>
#include <utility>

#include <ATen/ops/empty.h>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

// Hugging Face's names of layers, and llama.cpp's; of a block's, without its number.
constexpr std::pair<std::string_view, std::string_view> kNames[] = {
    {"model.embed_tokens", "token_embd"},
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.o_proj", "attn_output"},
    {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
    {"transformer.wte", "token_embd"},
    {"transformer.wpe", "position_embd"},
    {"ln_1", "attn_norm"},
    {"attn.c_attn", "attn_qkv"},
    {"attn.c_proj", "attn_output"},
    {"ln_2", "ffn_norm"},
    {"mlp.c_fc", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
    {"transformer.ln_f", "output_norm"},
};

// "model.layers.3.mlp.up_proj.weight" -> "blk.3.ffn_up.weight"
std::string gguf_name(std::string_view theirs) {
  std::string begin;
  for (const std::string_view blocks : {"model.layers.", "transformer.h."}) {
    if (!theirs.starts_with(blocks)) continue;
    theirs.remove_prefix(blocks.size());
    const size_t number = theirs.find('.') + 1;
    begin = "blk." + std::string(theirs.substr(0, number));
    theirs.remove_prefix(number);
  }
  const size_t end = theirs.rfind('.');
  const auto* const found =
      std::ranges::find(kNames, theirs.substr(0, end), &std::pair<std::string_view, std::string_view>::first);
  AXONN_ASSERT(found != std::end(kNames), "llama.cpp has no name for ", theirs);
  return begin + std::string(found->second) + std::string(theirs.substr(end));
}

}  // namespace

std::vector<GgufTensor> gguf_tensors(const GgufNetwork& network, const std::vector<DecoderTensor>& tensors,
                                     at::ScalarType dtype) {
  std::vector<GgufTensor> all;
  for (const DecoderTensor& tensor : tensors)
    for (const FilePart& part : tensor.parts) {
      GgufTensor one = {.name = gguf_name(part.name), .ours = tensor.name, .shape = tensor.shape, .rows = part.rows};
      one.shape[0] = part.rows.size();
      const bool is_matrix = one.shape.size() > 1 && one.name != "position_embd.weight";
      one.dtype = is_matrix ? dtype : at::kFloat;
      if (network.rotates_neighbours() && one.name.find(".attn_q.") != std::string::npos)
        one.reordered_heads = network.shape.heads;
      if (network.rotates_neighbours() && one.name.find(".attn_k.") != std::string::npos)
        one.reordered_heads = network.shape.keys();
      all.push_back(std::move(one));
    }
  return all;
}

at::Tensor values_of(const GgufTensor& tensor, const at::Tensor& whole) {
  const at::Tensor rows = whole.narrow(0, tensor.rows.begin, tensor.rows.size());
  if (tensor.reordered_heads == 0) return rows;
  const int64_t heads = tensor.reordered_heads, half = tensor.rows.size() / heads / 2;
  return rows.reshape({heads, 2, half, -1}).transpose(1, 2).reshape(tensor.shape);
}

at::Tensor slower_rotations(const DecoderShape& shape) {
  const int64_t features = shape.features_of_head();
  const at::Tensor factors = at::empty({features / 2}, at::kFloat);
  for (int64_t pair = 0; pair < features / 2; ++pair) {
    const double angle = std::pow(shape.rope_theta, -2.0 * static_cast<double>(pair) / static_cast<double>(features));
    const double turns = static_cast<double>(shape.rope_original) * angle / (2 * std::numbers::pi);
    const double kept = std::clamp((turns - shape.rope_low) / (shape.rope_high - shape.rope_low), 0.0, 1.0);
    factors[pair] = 1 / ((1 - kept) / shape.rope_factor + kept);
  }
  return factors;
}

}  // namespace axonn
