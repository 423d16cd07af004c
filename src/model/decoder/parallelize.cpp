#include "axonn/model/decoder/parallelize.hpp"

#include <cmath>
#include <memory>
#include <optional>
#include <vector>

namespace axonn {
namespace {

RotaryOptions rotary_of(const DecoderShape& shape) {
  return {.theta = shape.rope_theta,
          .factor = shape.rope_factor,
          .low = shape.rope_low,
          .high = shape.rope_high,
          .original = shape.rope_original};
}

}  // namespace

// The residual stream has its features over Y and is replicated over X. A plain layer moves them to
// X, and the transposed layer after it moves them back, so no layer needs a redistribute.
DecoderPlan parallelize_decoder(const DecoderConfig& config) {
  const DecoderShape& shape = config.shape;
  const int64_t h = shape.hidden, m = shape.mlp(), d = shape.features_of_head(), q = shape.attended(),
                k = shape.keys() * d;
  const auto weight = Initial::normal(0.02);
  // As in GPT-2, for the layers that add to the stream.
  const auto residual = Initial::normal(0.02 / std::sqrt(2.0 * static_cast<double>(shape.layers)));
  const bool rotated = shape.positions == 0;
  const auto adapted = [&](bool there) { return there ? config.low_rank : LowRankOptions(); };
  return {
      .tokens = {.vocabulary = shape.vocabulary,
                 .features = h,
                 .vocabulary_axis = Axis::x,
                 .feature_axis = Axis::y,
                 .initial = weight},
      .positions =
          rotated
              ? std::nullopt
              : std::optional(PositionsOptions{
                    .length = shape.learned_positions(), .features = h, .feature_axis = Axis::y, .initial = weight}),
      .norm = {.features = h, .axis = Axis::y, .epsilon = shape.norm_epsilon, .centred = shape.norm_bias},
      .attention = {.qkv = {.in = h,
                            .out = q + 2 * k,
                            .bias = shape.qkv_bias,
                            .segments = {q, k, k},
                            .weight_initial = weight,
                            .low_rank = adapted(config.adapts_qkv())},  // Y -> X
                    .attention = {.heads = shape.heads,
                                  .kv_heads = shape.keys(),
                                  .dropout = config.dropout,
                                  .axis = Axis::x,
                                  .rotary = rotated ? std::make_shared<Rotary>(d, rotary_of(shape)) : nullptr},
                    .out = {.in = q,
                            .out = h,
                            .bias = shape.projection_bias,
                            .transposed = true,
                            .weight_initial = residual,
                            .low_rank = adapted(config.adapts_projection())},  // X -> Y
                    .head_norm = shape.qk_norm
                                     ? std::optional(HeadNormOptions{.features = d, .epsilon = shape.norm_epsilon})
                                     : std::nullopt},
      .mlp = {.up = {.in = h,
                     .out = shape.halves() * m,
                     .bias = shape.mlp_bias,
                     .segments = shape.gated ? std::vector<int64_t>{m, m} : std::vector<int64_t>(),
                     .weight_initial = weight,
                     .low_rank = adapted(config.adapts_mlp())},  // Y -> X
              .down = {.in = m,
                       .out = h,
                       .bias = shape.mlp_bias,
                       .transposed = true,
                       .weight_initial = residual,
                       .low_rank = adapted(config.adapts_mlp())},  // X -> Y
              .gated = shape.gated},
      // Y -> X
      .head = {.in = h, .out = shape.vocabulary, .bias = false, .pad_output = true, .weight_initial = weight},
  };
}

}  // namespace axonn
