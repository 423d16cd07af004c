#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "axonn/network/sizes.hpp"

// Sizes of all decoders: GPT-2, OPT, GPT-NeoX, Llama, Mistral, Qwen, Gemma, and their mixtures of
// experts. The planner ranks grids for all of them. The program gpt trains those without experts
// and with two norms per block: GPT-2, Llama, Mistral, Qwen 2 and 3, and what has their shapes.
namespace axonn {

// By default a GPT-2: pre-norm blocks, learned positions, tanh GELU, biases everywhere but in the
// head.
struct DecoderShape {
  static constexpr int64_t kOfSequence = -1, kEveryLayer = -1;

  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;    // heads of keys and values; 0: heads
  int64_t head_dim = 0;    // features of a head; 0: hidden / heads
  int64_t mlp_hidden = 0;  // features between the two layers of an MLP; 0: 4 * hidden
  int64_t sequence = 0;    // tokens of a training sequence
  int64_t vocabulary = 0;  // without padding
  // Rows of the learned table of positions. 0: none, queries and keys are rotated. kOfSequence: as
  // many as `sequence`.
  int64_t positions = kOfSequence;
  bool tied_head = false;  // the head's weight is the token embedding
  bool gated = false;      // the MLP's first layer has a second half that gates it
  bool qkv_bias = true, projection_bias = true, mlp_bias = true, norm_bias = true;
  bool qk_norm = false;                   // queries and keys are normalised, head by head
  int64_t block_norms = 2;                // norms of a block
  int64_t window = 0;                     // tokens that a query sees, itself among them; 0: all before it
  int64_t windowed_layers = kEveryLayer;  // blocks with such a window, the last ones
  double norm_epsilon = 1e-5;             // added to a norm's variance, or mean square
  // Rotated positions: feature i of a head and feature i + d/2, of d, turn by theta^(-2i/d) per
  // token (Su et al., RoFormer, 2021). With a factor above 1, slow turns are slower by that factor,
  // as in Llama 3.1: those of less than rope_low turns in rope_original tokens wholly, those of
  // more than rope_high turns not at all.
  double rope_theta = 10000, rope_factor = 1, rope_low = 1, rope_high = 4;
  int64_t rope_original = 0;
  int64_t experts = 0;        // MLPs of a block from which each token takes some; 0: one MLP
  int64_t token_experts = 0;  // experts per token
  int64_t expert_hidden = 0;  // features between the two layers of an expert
  int64_t shared_hidden = 0;  // the same of the expert that every token takes; 0: none
  int64_t dense_layers = 0;   // blocks with one MLP of mlp_hidden in spite of `experts`
  bool foreign = false;       // it has other mathematics than these sizes say, and can only be planned

  int64_t learned_positions() const { return positions == kOfSequence ? sequence : positions; }
  int64_t keys() const { return kv_heads > 0 ? kv_heads : heads; }
  int64_t features_of_head() const { return head_dim > 0 ? head_dim : heads > 0 ? hidden / heads : 0; }
  int64_t attended() const { return heads * features_of_head(); }  // features of all queries
  int64_t projected() const { return (heads + 2 * keys()) * features_of_head(); }
  int64_t mlp() const { return mlp_hidden > 0 ? mlp_hidden : 4 * hidden; }
  int64_t halves() const { return gated ? 2 : 1; }
  int64_t expert_layers() const { return experts > 0 ? layers - dense_layers : 0; }
  int64_t windowed() const { return window == 0 ? 0 : windowed_layers == kEveryLayer ? layers : windowed_layers; }
  // The window of a block, from 0; 0: none.
  int64_t window_of(int64_t block) const { return block >= layers - windowed() ? window : 0; }
  bool operator==(const DecoderShape&) const = default;
};

// The same sizes with what Llama has in place of GPT-2's positions and biases: rotated queries and
// keys, no biases.
constexpr DecoderShape rotated(DecoderShape sizes) {
  sizes.positions = 0;
  sizes.qkv_bias = sizes.projection_bias = sizes.mlp_bias = sizes.norm_bias = false;
  return sizes;
}

template <>
struct Sizes<DecoderShape> {
  static constexpr std::string_view kNetwork = "transformer";
  static std::span<const Preset<DecoderShape>> presets();
  // A GPT-2; rotated() if one of the keys is of what GPT-2 does not have. `sizes`: the others.
  static DecoderShape base(std::span<const std::string> keys, const DecoderShape& sizes = {});
  template <typename Visit>
  static void visit(const Visit& size) {
    using Shape = DecoderShape;
    constexpr int64_t kHidden = 1 << 20, kTokens = 1 << 24, kLayers = 10'000;
    size(SizeTerms{.key = "layers", .help = "transformer blocks", .most = kLayers}, &Shape::layers);
    size(SizeTerms{.key = "hidden", .help = "features of the residual stream", .most = kHidden}, &Shape::hidden);
    size(SizeTerms{.key = "heads", .help = "attention heads", .most = kHidden}, &Shape::heads);
    size(
        SizeTerms{
            .key = "sequence", .help = "tokens of the longest sequence", .most = kTokens, .suffixes = Suffixes::binary},
        &Shape::sequence);
    size(SizeTerms{.key = "vocab",
                   .help = "vocabulary; 0: the tokenizer's",
                   .most = kTokens,
                   .from_data = FromData{.number = 0, .assumed = 256}},  // vocabulary of bytes
         &Shape::vocabulary);
    size(SizeTerms{.key = "mlp_hidden",
                   .help = "features between an MLP's two layers; 0: 4 x hidden",
                   .least = 0,
                   .most = 4 * kHidden},
         &Shape::mlp_hidden);
    size(SizeTerms{.key = "tied", .help = "the head's weight is the token embedding"}, &Shape::tied_head);

    // Sizes that GPT-2 does not have, or always has.
    const auto number = [&](std::string_view key, std::string_view help, int64_t most, int64_t Shape::* member,
                            int64_t least = 0) {
      size(SizeTerms{.key = key, .help = help, .least = least, .most = most, .beyond_plain = true}, member);
    };
    const auto untrained = [&](std::string_view key, std::string_view help, int64_t most, int64_t Shape::* member,
                               int64_t least = 0) {
      size(SizeTerms{.key = key, .help = help, .least = least, .most = most, .beyond_plain = true, .untrained = true},
           member);
    };
    const auto flag = [&](std::string_view key, std::string_view help, auto Shape::* member) {
      size(SizeTerms{.key = key, .help = help, .beyond_plain = true}, member);
    };
    number("kv_heads", "heads of keys and values; 0: heads", kHidden, &Shape::kv_heads);
    number("head_dim", "features of a head; 0: hidden / heads", kHidden, &Shape::head_dim);
    number("positions", "rows of the learned table of positions; 0: none, -1: as many as the sequence", kTokens,
           &Shape::positions, Shape::kOfSequence);
    flag("gated", "the MLP's first layer has a second half that gates it", &Shape::gated);
    flag("qkv_bias", "queries, keys and values have a bias", &Shape::qkv_bias);
    flag("projection_bias", "attention's last layer has a bias", &Shape::projection_bias);
    flag("mlp_bias", "the MLP's layers have a bias", &Shape::mlp_bias);
    flag("norm_bias", "norms subtract the mean and have a bias", &Shape::norm_bias);
    flag("qk_norm", "queries and keys are normalised", &Shape::qk_norm);
    number("window", "tokens that a query sees, with itself; 0: all before it", kTokens, &Shape::window);
    number("windowed_layers", "blocks with such a window, the last ones; -1: all", kLayers, &Shape::windowed_layers,
           Shape::kEveryLayer);
    flag("norm_epsilon", "added to a norm's variance or mean square", &Shape::norm_epsilon);
    flag("rope_theta", "base of the angles by which queries and keys are rotated", &Shape::rope_theta);
    flag("rope_factor", "how much longer a text may be by slower rotations, as in Llama 3.1; 1: none",
         &Shape::rope_factor);
    flag("rope_low", "turns in rope_original tokens up to which rotations are slower by the whole factor",
         &Shape::rope_low);
    flag("rope_high", "turns in rope_original tokens from which rotations are as they were", &Shape::rope_high);
    number("rope_original", "the longest text before rope_factor", kTokens, &Shape::rope_original);
    untrained("block_norms", "norms of a block", 4, &Shape::block_norms, 1);
    untrained("experts", "MLPs of a block from which each token takes some; 0: one MLP", 1 << 16, &Shape::experts);
    untrained("token_experts", "experts per token", 1 << 16, &Shape::token_experts);
    untrained("expert_hidden", "features between an expert's two layers", 4 * kHidden, &Shape::expert_hidden);
    untrained("shared_hidden", "the same of the expert that every token takes", 4 * kHidden, &Shape::shared_hidden);
    untrained("dense_layers", "blocks with one MLP in spite of experts", kLayers, &Shape::dense_layers);
  }
};

// UserError unless every size is within its limits and fits the others.
void check_decoder(const DecoderShape& shape);

// Trainable elements: of all experts, or of those that one token takes.
int64_t parameters_of(const DecoderShape& shape);
int64_t active_parameters_of(const DecoderShape& shape);

// Whether GPT-2 has all of its parts.
bool is_gpt2(const DecoderShape& shape);

// Parts that no program of ours trains: "8 experts, 4 norms per block". Empty: nothing.
std::string untrained_parts(const DecoderShape& shape);

}  // namespace axonn
