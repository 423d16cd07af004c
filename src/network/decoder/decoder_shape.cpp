#include "axonn/network/decoder/decoder_shape.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "axonn/core/error.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "network.decoder";

void check_experts(const DecoderShape& shape) {
  if (shape.experts == 0) {
    AXONN_CHECK(
        shape.token_experts == 0 && shape.expert_hidden == 0 && shape.shared_hidden == 0 && shape.dense_layers == 0,
        kWhere, "token_experts, expert_hidden, shared_hidden and dense_layers need experts, got experts = 0");
    return;
  }
  AXONN_CHECK(shape.token_experts >= 1 && shape.token_experts <= shape.experts, kWhere,
              "token_experts must be from 1 to experts = ", shape.experts, ", got ", shape.token_experts);
  AXONN_CHECK(shape.expert_hidden >= 1, kWhere, "expert_hidden must be positive where there are experts, got ",
              shape.expert_hidden);
  AXONN_CHECK(shape.dense_layers <= shape.layers, kWhere, "dense_layers must be at most layers = ", shape.layers,
              ", got ", shape.dense_layers);
}

// Sums of a few such products, in bytes, do not overflow 64 bits.
void check_products(const DecoderShape& shape) {
  constexpr double kMostElements = 1.6e16;
  const auto product = [](std::initializer_list<int64_t> sizes) {
    double all = 1;
    for (const int64_t size : sizes) all *= static_cast<double>(size);
    return all;
  };
  const int64_t expert = std::max(shape.hidden, shape.expert_hidden);
  const double attention = product({shape.heads + 2 * shape.keys(), shape.features_of_head()});
  const double stored = std::max({attention, product({shape.mlp()}), product({shape.experts, expert})});
  const double kept = std::max({attention, product({shape.mlp()}), product({shape.token_experts, expert}),
                                product({shape.experts}), product({shape.shared_hidden})});
  for (const auto& [what, size] : {std::pair{"layers x hidden x features of a block", product({shape.hidden}) * stored},
                                   {"layers x sequence x features of a block", product({shape.sequence}) * kept}})
    AXONN_CHECK(product({shape.layers}) * size <= kMostElements, kWhere, what, " must be at most ", kMostElements,
                ", got ", product({shape.layers}) * size);
}

// Elements of an MLP with f features between its layers; of one of several experts if `biased` is
// false.
int64_t mlp_elements(const DecoderShape& shape, int64_t f, bool biased) {
  const int64_t matrices = (shape.halves() + 1) * shape.hidden * f;
  return matrices + (biased ? shape.halves() * f + shape.hidden : 0);
}

int64_t count(const DecoderShape& shape, int64_t experts) {
  check_decoder(shape);
  const int64_t h = shape.hidden, norm = shape.norm_bias ? 2 * h : h;
  int64_t attention = h * shape.projected() + shape.attended() * h;
  if (shape.qkv_bias) attention += shape.projected();
  if (shape.projection_bias) attention += h;
  if (shape.qk_norm) attention += 2 * shape.features_of_head();
  const int64_t router = h * shape.experts;
  const int64_t shared = shape.shared_hidden > 0 ? mlp_elements(shape, shape.shared_hidden, false) + h : 0;
  const int64_t mixture = router + experts * mlp_elements(shape, shape.expert_hidden, false) + shared;
  const int64_t sparse = shape.expert_layers(), dense = shape.layers - sparse;
  return shape.vocabulary * h * (shape.tied_head ? 1 : 2) + shape.learned_positions() * h + norm +
         shape.layers * (attention + shape.block_norms * norm) +
         dense * mlp_elements(shape, shape.mlp(), shape.mlp_bias) + sparse * mixture;
}

}  // namespace

DecoderShape Sizes<DecoderShape>::base(std::span<const std::string> keys, const DecoderShape& sizes) {
  const std::vector<std::string> plain = size_keys<DecoderShape>(SizesFor::plain);
  const auto is_plain = [&](const std::string& key) { return std::ranges::find(plain, key) != plain.end(); };
  return std::ranges::all_of(keys, is_plain) ? sizes : rotated(sizes);
}

void check_decoder(const DecoderShape& shape) {
  check_sizes(shape, kWhere);
  AXONN_CHECK(shape.head_dim > 0 || shape.hidden % shape.heads == 0, kWhere,
              "hidden must divide by heads, got hidden = ", shape.hidden, " and heads = ", shape.heads);
  AXONN_CHECK(shape.heads % shape.keys() == 0, kWhere, "heads must divide by kv_heads, got heads = ", shape.heads,
              " and kv_heads = ", shape.keys());
  AXONN_CHECK(shape.positions == 0 || shape.sequence <= shape.learned_positions(), kWhere, "the network has ",
              shape.positions, " learned positions, got sequence = ", shape.sequence, ": make it shorter");
  AXONN_CHECK(shape.windowed_layers <= shape.layers && (shape.windowed_layers <= 0 || shape.window > 0), kWhere,
              "windowed_layers must be at most layers = ", shape.layers,
              ", and needs a window, got windowed_layers = ", shape.windowed_layers, " and window = ", shape.window);
  AXONN_CHECK(shape.positions != 0 || shape.features_of_head() % 2 == 0, kWhere,
              "a rotation needs heads of an even number of features, got ", shape.features_of_head());
  AXONN_CHECK(shape.rope_factor >= 1, kWhere, "rope_factor must be at least 1, got ", shape.rope_factor);
  AXONN_CHECK(shape.rope_factor == 1 || (shape.rope_original > 0 && shape.rope_low < shape.rope_high), kWhere,
              "rope_factor needs rope_original, and rope_low below rope_high, got ", shape.rope_original, ", ",
              shape.rope_low, " and ", shape.rope_high);
  check_experts(shape);
  check_products(shape);
}

int64_t parameters_of(const DecoderShape& shape) { return count(shape, shape.experts); }

int64_t active_parameters_of(const DecoderShape& shape) { return count(shape, shape.token_experts); }

bool is_gpt2(const DecoderShape& shape) {
  return shape.learned_positions() == shape.sequence && shape.keys() == shape.heads &&
         shape.attended() == shape.hidden && !shape.gated && !shape.qk_norm && shape.norm_bias && shape.qkv_bias &&
         shape.projection_bias && shape.mlp_bias && shape.windowed() == 0 && shape.norm_epsilon == 1e-5 &&
         untrained_parts(shape).empty();
}

std::string untrained_parts(const DecoderShape& shape) {
  std::string text;
  if (shape.experts > 0) text = detail::concatenate(shape.experts, " experts");
  if (shape.block_norms != 2)
    text += detail::concatenate(text.empty() ? "" : ", ", shape.block_norms, " norms per block");
  if (shape.foreign)
    text += detail::concatenate(text.empty() ? "" : ", ", "a rotation, an activation or a norm that is none of ours");
  return text;
}

}  // namespace axonn
