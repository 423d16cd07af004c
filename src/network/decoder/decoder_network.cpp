#include "axonn/network/decoder/decoder_network.hpp"

#include <algorithm>
#include <utility>

namespace axonn {
namespace {

// 4 Mi tokens, as in Table I of the AxoNN paper, or the whole sequences below that.
int64_t usual_tokens(int64_t sequence) {
  constexpr int64_t kUsualTokens = int64_t{4} << 20;
  return std::max<int64_t>(kUsualTokens / sequence, 1) * sequence;
}

}  // namespace

NetworkModel network_model(std::string name, const DecoderShape& shape) {
  check_decoder(shape);
  DecoderShape whole = shape;
  whole.kv_heads = shape.keys();
  whole.head_dim = shape.features_of_head();
  whole.mlp_hidden = shape.mlp();
  return {.name = std::move(name),
          .layers = layer_table(shape),
          .blocks = shape.layers,
          .beyond_programs = beyond_gpt2(shape),
          .tokens = "tokens",
          .samples = "sequences",
          .tokens_per_sample = shape.sequence,
          .usual_batch = usual_tokens(shape.sequence),
          .parameters = parameters_of(shape),
          .active_parameters = active_parameters_of(shape),
          .sizes = sizes_of(whole),
          .why_impossible = [whole](const GridShape& grid) -> std::optional<std::string> {
            if (whole.heads % grid.x != 0) return "heads % x";
            if (whole.kv_heads % grid.x != 0) return "kv_heads % x";
            if (whole.hidden % grid.y != 0) return "hidden % y";
            return std::nullopt;
          },
          .memory = [shape](const GridShape& grid,
                            const MemoryOptions& options) { return predict_memory(shape, grid, options); }};
}

}  // namespace axonn
