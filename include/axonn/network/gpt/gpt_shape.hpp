#pragma once

#include <cstdint>
#include <span>

#include "axonn/network/sizes.hpp"

// Sizes of a GPT with the GPT-2 architecture, and formulas for its parameters and floating-point
// operations. Trainer and planner share them.
namespace axonn {

struct GptShape {
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t sequence = 0;    // tokens of the longest sequence
  int64_t vocabulary = 0;  // without padding
  int64_t mlp_hidden = 0;  // features between the two layers of an MLP; 0: 4 * hidden
  bool tied_head = false;  // the head's weight is the token embedding

  int64_t mlp() const { return mlp_hidden > 0 ? mlp_hidden : 4 * hidden; }
  bool operator==(const GptShape&) const = default;
};

template <>
struct Sizes<GptShape> {
  static constexpr std::string_view kNetwork = "transformer";
  static std::span<const Preset<GptShape>> presets();
  template <typename Visit>
  static void visit(const Visit& size) {
    constexpr int64_t kHidden = 1 << 20, kTokens = 1 << 24;
    size(SizeTerms{.key = "layers", .help = "transformer blocks", .most = 10'000}, &GptShape::layers);
    size(SizeTerms{.key = "hidden", .help = "features of the residual stream", .most = kHidden}, &GptShape::hidden);
    size(SizeTerms{.key = "heads", .help = "attention heads", .most = kHidden}, &GptShape::heads);
    size(
        SizeTerms{
            .key = "sequence", .help = "tokens of the longest sequence", .most = kTokens, .suffixes = Suffixes::binary},
        &GptShape::sequence);
    size(SizeTerms{.key = "vocab",
                   .help = "vocabulary; 0: the tokenizer's",
                   .most = kTokens,
                   .from_data = FromData{.number = 0, .assumed = 256}},  // vocabulary of bytes
         &GptShape::vocabulary);
    size(SizeTerms{.key = "mlp_hidden",
                   .help = "features between an MLP's two layers; 0: 4 x hidden",
                   .least = 0,
                   .most = 4 * kHidden},
         &GptShape::mlp_hidden);
    size(SizeTerms{.key = "tied", .help = "the head's weight is the token embedding"}, &GptShape::tied_head);
  }
};

// Throws UserError unless every size is within its limits, all sizes together are too, and the
// heads divide hidden.
void check_gpt(const GptShape& shape);

// Trainable elements by kind, with h = hidden and m = mlp(). Biases everywhere except in the head,
// learned positions, norms with weight and bias.
struct ParameterCounts {
  int64_t token_embedding = 0;     // vocabulary * h
  int64_t position_embedding = 0;  // sequence * h
  struct Block {
    int64_t qkv = 0;         // 3 h^2
    int64_t projection = 0;  // h^2
    int64_t mlp = 0;         // 2 h m
    int64_t norms = 0;       // 4 h: two norms
    int64_t biases = 0;      // 5 h + m: qkv 3 h, projection h, mlp m + h
    int64_t total() const { return qkv + projection + mlp + norms + biases; }
  } block;  // one of the blocks
  int64_t layers = 0;
  int64_t final_norm = 0;  // 2 h
  int64_t head = 0;        // vocabulary * h; 0 when tied
  int64_t total() const { return token_embedding + position_embedding + layers * block.total() + final_norm + head; }
};
ParameterCounts count_parameters(const GptShape& shape);

// Operations per token of one forward pass; a multiply-add counts as 2. With l layers, sequence s
// and vocabulary V:
//   l (8 h^2 + 4 h m + 4 s h) + 2 V h
// These are the matrices of a block (4 h^2 + 2 h m elements: 12 h^2 where m = 4 h), the scores and
// their product with the values (the whole s x s square, also under a causal mask), and the head
// (also when tied). It equals the sum of layer_table.hpp. Norms, activations and biases are left
// out, as usual.
double forward_flops_per_token(const GptShape& shape);

// Forward and backward: 3 times the forward. Utilisation is measured in these "model FLOPs", in
// which recomputation does not count.
double model_flops_per_token(const GptShape& shape);

// The FLOPs that the AxoNN paper reports (section VI-C, Narayanan et al.'s formula): hardware FLOPs
// of a step of B sequences with activation checkpointing, where the blocks run forward twice:
//   96 B s l h^2 (1 + s / (6 h) + V / (16 l h)) where m = 4 h
double checkpointed_flops(const GptShape& shape, double sequences);

}  // namespace axonn
