#include "axonn/network/gpt/gpt_shape.hpp"

#include <algorithm>

#include "axonn/core/error.hpp"
#include "axonn/network/gpt/gpt_layers.hpp"

namespace axonn {
namespace {

// Sizes as doubles: products of five of them overflow 64 bits.
struct Doubles {
  double l, h, m, s, v;
  explicit Doubles(const GptShape& shape)
      : l(static_cast<double>(shape.layers)),
        h(static_cast<double>(shape.hidden)),
        m(static_cast<double>(shape.mlp())),
        s(static_cast<double>(shape.sequence)),
        v(static_cast<double>(shape.vocabulary)) {}
};

}  // namespace

void check_gpt(const GptShape& shape) {
  constexpr double kMostElements = 1e15;  // elements of all layers' residual streams, or of one matrix per layer
  constexpr const char* kWhere = "network.gpt";
  check_sizes(shape, kWhere);
  AXONN_CHECK(shape.hidden % shape.heads == 0, kWhere, "hidden must divide by heads, got hidden = ", shape.hidden,
              " and heads = ", shape.heads);
  const double stream = static_cast<double>(shape.layers) * static_cast<double>(shape.hidden);
  const double widest = static_cast<double>(std::max({shape.hidden, shape.mlp() / 4, shape.sequence}));
  AXONN_CHECK(stream * widest <= kMostElements, kWhere, "layers x hidden x (hidden or sequence) must be at most ",
              kMostElements, ", got ", stream * widest);
}

ParameterCounts count_parameters(const GptShape& shape) {
  check_gpt(shape);
  const int64_t h = shape.hidden;
  return {.token_embedding = shape.vocabulary * h,
          .position_embedding = shape.sequence * h,
          .block = {.qkv = 3 * h * h,
                    .projection = h * h,
                    .mlp = 2 * h * shape.mlp(),
                    .norms = 4 * h,
                    .biases = 5 * h + shape.mlp()},
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
  const Doubles n(shape);
  return sequences * n.s * n.h * (n.l * (32 * n.h + 16 * n.m + 16 * n.s) + 6 * n.v);
}

}  // namespace axonn
