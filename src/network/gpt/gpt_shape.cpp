#include "axonn/network/gpt/gpt_shape.hpp"

#include <string_view>

#include "axonn/core/error.hpp"
#include "axonn/network/gpt/gpt_layers.hpp"

namespace axonn {
namespace {

// Sizes as doubles: products of five of them leave 64 bits.
struct Sizes {
  double l, h, s, v;
  explicit Sizes(const GptShape& shape)
      : l(static_cast<double>(shape.layers)),
        h(static_cast<double>(shape.hidden)),
        s(static_cast<double>(shape.sequence)),
        v(static_cast<double>(shape.vocabulary)) {}
};

}  // namespace

void check_gpt(const GptShape& shape) {
  const auto positive = [](int64_t value, std::string_view name) {
    AXONN_CHECK(value > 0, "network.gpt", name, " must be positive, got ", value);
  };
  positive(shape.layers, "layers");
  positive(shape.hidden, "hidden");
  positive(shape.heads, "heads");
  positive(shape.sequence, "sequence");
  positive(shape.vocabulary, "vocabulary");
  AXONN_CHECK(shape.hidden % shape.heads == 0, "network.gpt", "heads must divide hidden, got ", shape.heads,
              " heads and hidden = ", shape.hidden);
}

ParameterCounts count_parameters(const GptShape& shape) {
  check_gpt(shape);
  const int64_t h = shape.hidden;
  return {.token_embedding = shape.vocabulary * h,
          .position_embedding = shape.sequence * h,
          .block = {.qkv = 3 * h * h, .projection = h * h, .mlp = 8 * h * h, .norms = 4 * h, .biases = 9 * h},
          .layers = shape.layers,
          .final_norm = 2 * h,
          .head = shape.tied_head ? 0 : shape.vocabulary * h};
}

double forward_flops_per_token(const GptShape& shape) {
  double flops = 0;
  for (const LayerWork& layer : layer_table(shape)) flops += static_cast<double>(layer.count) * layer.flops;
  return flops;
}

double model_flops_per_token(const GptShape& shape) { return 3 * forward_flops_per_token(shape); }

double checkpointed_flops(const GptShape& shape, double sequences) {
  check_gpt(shape);
  const Sizes n(shape);
  return 96 * sequences * n.s * n.l * n.h * n.h * (1 + n.s / (6 * n.h) + n.v / (16 * n.l * n.h));
}

}  // namespace axonn
