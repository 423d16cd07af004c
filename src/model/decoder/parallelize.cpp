#include "axonn/model/decoder/parallelize.hpp"

#include <cmath>

namespace axonn {

// The residual stream has its features over Y and is replicated over X. A plain layer moves them to
// X, and the transposed layer after it moves them back, so no layer needs a redistribute.
DecoderPlan parallelize_decoder(const DecoderConfig& config) {
  const int64_t h = config.shape.hidden, m = config.shape.mlp();
  const auto weight = Initial::normal(0.02);
  // As in GPT-2, for the layers that add to the stream.
  const auto residual = Initial::normal(0.02 / std::sqrt(2.0 * static_cast<double>(config.shape.layers)));
  return {
      .tokens = {.vocabulary = config.shape.vocabulary,
                 .features = h,
                 .vocabulary_axis = Axis::x,
                 .feature_axis = Axis::y,
                 .initial = weight},
      .positions = {.length = config.shape.sequence, .features = h, .feature_axis = Axis::y, .initial = weight},
      .norm = {.features = h, .axis = Axis::y},
      .attention = {.qkv = {.in = h, .out = 3 * h, .segments = {h, h, h}, .weight_initial = weight},         // Y -> X
                    .attention = {.heads = config.shape.heads, .dropout = config.dropout, .axis = Axis::x},  // X -> X
                    .out = {.in = h, .out = h, .transposed = true, .weight_initial = residual}},             // X -> Y
      .mlp = {.up = {.in = h, .out = m, .weight_initial = weight},                                           // Y -> X
              .down = {.in = m, .out = h, .transposed = true, .weight_initial = residual}},                  // X -> Y
      // Y -> X
      .head = {.in = h, .out = config.shape.vocabulary, .bias = false, .pad_output = true, .weight_initial = weight},
  };
}

}  // namespace axonn
