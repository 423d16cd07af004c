#include "axonn/network/decoder/decoder_presets.hpp"

#include <array>

namespace axonn {
namespace {

constexpr DecoderShape table_1(int64_t layers, int64_t hidden, int64_t heads) {
  return {.layers = layers, .hidden = hidden, .heads = heads, .sequence = 2048, .vocabulary = 51200};
}

// Sizes of public models, from their config.json. The sequence is that of usual training runs.
constexpr DecoderShape llama(DecoderShape sizes) {
  sizes.gated = true;
  return rotated(sizes);
}

constexpr DecoderShape llama_3(DecoderShape sizes, double factor) {
  sizes.kv_heads = 8;
  sizes.sequence = sizes.rope_original = 8192;
  sizes.vocabulary = 128256;
  sizes.rope_theta = 500'000;
  sizes.rope_factor = factor;
  return llama(sizes);
}

constexpr DecoderShape qwen(DecoderShape sizes) {
  sizes.sequence = 4096;
  sizes.rope_theta = 1'000'000;
  sizes.norm_epsilon = 1e-6;
  return llama(sizes);
}

constexpr DecoderShape qwen_2(DecoderShape sizes) {
  sizes = qwen(sizes);
  sizes.qkv_bias = true;
  return sizes;
}

constexpr DecoderShape qwen_3(DecoderShape sizes) {
  sizes.kv_heads = 8;
  sizes.head_dim = 128;
  sizes.vocabulary = 151936;
  sizes.qk_norm = true;
  return qwen(sizes);
}

constexpr std::array kPresets = {
    DecoderPreset{"gpt-tiny", {.layers = 4, .hidden = 128, .heads = 4, .sequence = 128, .vocabulary = 256}},
    DecoderPreset{"gpt-124m",
                  {.layers = 12, .hidden = 768, .heads = 12, .sequence = 1024, .vocabulary = 50257, .tied_head = true}},
    DecoderPreset{"gpt5b", table_1(24, 4096, 32)},
    DecoderPreset{"gpt10b", table_1(32, 5120, 40)},
    DecoderPreset{"gpt20b", table_1(32, 7168, 56)},
    DecoderPreset{"gpt40b", table_1(38, 9216, 72)},
    DecoderPreset{"gpt80b", table_1(42, 12288, 96)},
    DecoderPreset{"smollm2-135m", llama({.layers = 30,
                                         .hidden = 576,
                                         .heads = 9,
                                         .kv_heads = 3,
                                         .mlp_hidden = 1536,
                                         .sequence = 2048,
                                         .vocabulary = 49152,
                                         .tied_head = true,
                                         .rope_theta = 100'000})},
    DecoderPreset{"tinyllama-1.1b", llama({.layers = 22,
                                           .hidden = 2048,
                                           .heads = 32,
                                           .kv_heads = 4,
                                           .mlp_hidden = 5632,
                                           .sequence = 2048,
                                           .vocabulary = 32000})},
    DecoderPreset{
        "llama-2-7b",
        llama({.layers = 32, .hidden = 4096, .heads = 32, .mlp_hidden = 11008, .sequence = 4096, .vocabulary = 32000})},
    DecoderPreset{"llama-2-70b", llama({.layers = 80,
                                        .hidden = 8192,
                                        .heads = 64,
                                        .kv_heads = 8,
                                        .mlp_hidden = 28672,
                                        .sequence = 4096,
                                        .vocabulary = 32000})},
    DecoderPreset{"llama-3.1-8b", llama_3({.layers = 32, .hidden = 4096, .heads = 32, .mlp_hidden = 14336}, 8)},
    DecoderPreset{"llama-3.1-70b", llama_3({.layers = 80, .hidden = 8192, .heads = 64, .mlp_hidden = 28672}, 8)},
    DecoderPreset{"llama-3.2-1b",
                  llama_3({.layers = 16, .hidden = 2048, .heads = 32, .mlp_hidden = 8192, .tied_head = true}, 32)},
    DecoderPreset{"mistral-7b", llama({.layers = 32,
                                       .hidden = 4096,
                                       .heads = 32,
                                       .kv_heads = 8,
                                       .mlp_hidden = 14336,
                                       .sequence = 8192,
                                       .vocabulary = 32000,
                                       .window = 4096})},
    DecoderPreset{"qwen2.5-0.5b", qwen_2({.layers = 24,
                                          .hidden = 896,
                                          .heads = 14,
                                          .kv_heads = 2,
                                          .mlp_hidden = 4864,
                                          .vocabulary = 151936,
                                          .tied_head = true})},
    DecoderPreset{
        "qwen2.5-7b",
        qwen_2({.layers = 28, .hidden = 3584, .heads = 28, .kv_heads = 4, .mlp_hidden = 18944, .vocabulary = 152064})},
    DecoderPreset{"qwen3-0.6b",
                  qwen_3({.layers = 28, .hidden = 1024, .heads = 16, .mlp_hidden = 3072, .tied_head = true})},
    DecoderPreset{"qwen3-8b", qwen_3({.layers = 36, .hidden = 4096, .heads = 32, .mlp_hidden = 12288})},
};

}  // namespace

std::span<const DecoderPreset> Sizes<DecoderShape>::presets() { return kPresets; }

}  // namespace axonn
