#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "axonn/network/sizes.hpp"

// Sizes of the decoders that are public: GPT-2, OPT, GPT-NeoX, Llama, Mistral, Qwen, Gemma, and
// their mixtures of experts. The planner ranks grids for all of them. A program of ours trains only
// those that are a GptShape.
namespace axonn {

struct DecoderShape {
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;    // heads of keys and values; 0: heads
  int64_t head_dim = 0;    // features of a head; 0: hidden / heads
  int64_t mlp_hidden = 0;  // features between the two layers of an MLP; 0: 4 * hidden
  int64_t sequence = 0;    // tokens of a training sequence
  int64_t vocabulary = 0;
  int64_t positions = 0;  // rows of the learned table of positions; 0: none, queries and keys are rotated
  bool tied_head = false;
  bool gated = false;  // the MLP's first layer has a second half that gates it
  bool qkv_bias = false, projection_bias = false, mlp_bias = false, norm_bias = false;
  bool qk_norm = false;                     // queries and keys are normalised, head by head
  int64_t block_norms = 2;                  // norms of a block
  int64_t window = 0, windowed_layers = 0;  // tokens that a query sees, and in how many blocks
  int64_t experts = 0;                      // MLPs of a block from which each token takes some; 0: one MLP
  int64_t token_experts = 0;                // experts per token
  int64_t expert_hidden = 0;                // features between the two layers of an expert
  int64_t shared_hidden = 0;                // the same of the expert that every token takes; 0: none
  int64_t dense_layers = 0;                 // blocks with one MLP of mlp_hidden in spite of `experts`

  int64_t keys() const { return kv_heads > 0 ? kv_heads : heads; }
  int64_t features_of_head() const { return head_dim > 0 ? head_dim : heads > 0 ? hidden / heads : 0; }
  int64_t attended() const { return heads * features_of_head(); }  // features of all queries
  int64_t projected() const { return (heads + 2 * keys()) * features_of_head(); }
  int64_t mlp() const { return mlp_hidden > 0 ? mlp_hidden : 4 * hidden; }
  int64_t halves() const { return gated ? 2 : 1; }
  int64_t expert_layers() const { return experts > 0 ? layers - dense_layers : 0; }
  bool operator==(const DecoderShape&) const = default;
};

template <>
struct Sizes<DecoderShape> {
  static constexpr std::string_view kNetwork = "decoder";
  static std::span<const Preset<DecoderShape>> presets() { return {}; }
  template <typename Visit>
  static void visit(const Visit& size) {
    using Shape = DecoderShape;
    constexpr int64_t kHidden = 1 << 20, kTokens = 1 << 24, kLayers = 10'000;
    const auto may_be_none = [&](std::string_view key, std::string_view help, int64_t most, int64_t Shape::* member) {
      size(SizeTerms{.key = key, .help = help, .least = 0, .most = most}, member);
    };
    size(SizeTerms{.key = "layers", .help = "transformer blocks", .most = kLayers}, &Shape::layers);
    size(SizeTerms{.key = "hidden", .help = "features of the residual stream", .most = kHidden}, &Shape::hidden);
    size(SizeTerms{.key = "heads", .help = "attention heads", .most = kHidden}, &Shape::heads);
    may_be_none("kv_heads", "heads of keys and values; 0: heads", kHidden, &Shape::kv_heads);
    may_be_none("head_dim", "features of a head; 0: hidden / heads", kHidden, &Shape::head_dim);
    may_be_none("mlp_hidden", "features between an MLP's two layers; 0: 4 x hidden", 4 * kHidden, &Shape::mlp_hidden);
    size(
        SizeTerms{
            .key = "sequence", .help = "tokens of the longest sequence", .most = kTokens, .suffixes = Suffixes::binary},
        &Shape::sequence);
    size(SizeTerms{.key = "vocab", .help = "vocabulary", .most = kTokens}, &Shape::vocabulary);
    may_be_none("positions", "rows of the learned table of positions; 0: none", kTokens, &Shape::positions);
    size(SizeTerms{.key = "tied", .help = "the head's weight is the token embedding"}, &Shape::tied_head);
    size(SizeTerms{.key = "gated", .help = "the MLP's first layer has a second half that gates it"}, &Shape::gated);
    size(SizeTerms{.key = "qkv_bias", .help = "queries, keys and values have a bias"}, &Shape::qkv_bias);
    size(SizeTerms{.key = "projection_bias", .help = "attention's last layer has a bias"}, &Shape::projection_bias);
    size(SizeTerms{.key = "mlp_bias", .help = "the MLP's layers have a bias"}, &Shape::mlp_bias);
    size(SizeTerms{.key = "norm_bias", .help = "norms subtract the mean and have a bias"}, &Shape::norm_bias);
    size(SizeTerms{.key = "qk_norm", .help = "queries and keys are normalised"}, &Shape::qk_norm);
    size(SizeTerms{.key = "block_norms", .help = "norms of a block", .most = 4}, &Shape::block_norms);
    may_be_none("window", "tokens that a query sees; 0: all before it", kTokens, &Shape::window);
    may_be_none("windowed_layers", "blocks with such a window", kLayers, &Shape::windowed_layers);
    may_be_none("experts", "MLPs of a block from which each token takes some; 0: one MLP", 1 << 16, &Shape::experts);
    may_be_none("token_experts", "experts per token", 1 << 16, &Shape::token_experts);
    may_be_none("expert_hidden", "features between an expert's two layers", 4 * kHidden, &Shape::expert_hidden);
    may_be_none("shared_hidden", "the same of the expert that every token takes", 4 * kHidden, &Shape::shared_hidden);
    may_be_none("dense_layers", "blocks with one MLP in spite of experts", kLayers, &Shape::dense_layers);
  }
};

// UserError unless every size is within its limits and fits the others.
void check_decoder(const DecoderShape& shape);

// Trainable elements: of all experts, or of those that one token takes.
int64_t parameters_of(const DecoderShape& shape);
int64_t active_parameters_of(const DecoderShape& shape);

// What GPT-2 does not have: "a gated MLP, 8 heads of keys for 32 of queries". Empty: nothing.
std::string beyond_gpt2(const DecoderShape& shape);

}  // namespace axonn
