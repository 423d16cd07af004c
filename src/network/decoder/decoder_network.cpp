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

// The sizes that say which decoder it is; a GPT-2 has few.
std::vector<NamedSize> shown_sizes(const DecoderShape& whole) {
  return sizes_of(whole, is_gpt2(whole) ? SizesFor::plain : SizesFor::planner_flags);
}

// Operations of the layer table per token: `of_blocks` times those inside a block, `of_others`
// times the others.
double flops_of(const DecoderShape& shape, double of_blocks, double of_others) {
  double flops = 0;
  for (const LayerWork& layer : layer_table(shape))
    flops += static_cast<double>(layer.count) * layer.flops * (layer.in_block ? of_blocks : of_others);
  return flops;
}

}  // namespace

NetworkModel network_model(std::string name, const DecoderShape& shape) {
  check_decoder(shape);
  DecoderShape whole = shape;
  whole.kv_heads = shape.keys();
  whole.head_dim = shape.features_of_head();
  whole.mlp_hidden = shape.mlp();
  whole.positions = shape.learned_positions();
  whole.windowed_layers = shape.windowed();
  return {.name = std::move(name),
          .layers = layer_table(shape),
          .blocks = shape.layers,
          .program = untrained_parts(shape).empty() ? "gpt" : "",
          .beyond_programs = untrained_parts(shape),
          .tokens = "tokens",
          .samples = "sequences",
          .tokens_per_sample = shape.sequence,
          .usual_batch = usual_tokens(shape.sequence),
          .parameters = parameters_of(shape),
          .active_parameters = active_parameters_of(shape),
          .divides_norms = true,
          .sizes = shown_sizes(whole),
          .why_impossible = [whole](const GridShape& grid) -> std::optional<std::string> {
            if (whole.heads % grid.x != 0) return "heads % x";
            if (whole.kv_heads % grid.x != 0) return "kv_heads % x";
            if (whole.hidden % grid.y != 0) return "hidden % y";
            return std::nullopt;
          },
          .memory = [shape](const GridShape& grid,
                            const MemoryOptions& options) { return predict_memory(shape, grid, options); }};
}

double forward_flops_per_token(const DecoderShape& shape) { return flops_of(shape, 1, 1); }

double model_flops_per_token(const DecoderShape& shape) { return 3 * forward_flops_per_token(shape); }

double checkpointed_flops(const DecoderShape& shape, double sequences) {
  return sequences * static_cast<double>(shape.sequence) * flops_of(shape, 4, 3);
}

}  // namespace axonn
