#include "axonn/network/gpt/gpt_network.hpp"

#include "axonn/network/gpt/gpt_layers.hpp"
#include "axonn/network/gpt/gpt_memory.hpp"

namespace axonn {
namespace {

constexpr int64_t kUsualTokens = int64_t{4} << 20;  // Table I of the AxoNN paper

}  // namespace

NetworkModel network_model(std::string name, const GptShape& shape) {
  check_gpt(shape);
  return {.name = std::move(name),
          .layers = layer_table(shape),
          .program = "gpt",
          .tokens = "tokens",
          .samples = "sequences",
          .tokens_per_sample = shape.sequence,
          .usual_batch = kUsualTokens,
          .parameters = count_parameters(shape).total(),
          .why_impossible = [shape](const GridShape& grid) -> std::optional<std::string> {
            if (shape.heads % grid.x != 0) return "heads % x";
            if (shape.hidden % grid.y != 0) return "hidden % y";
            return std::nullopt;
          },
          .memory = [shape](const GridShape& grid,
                            const MemoryOptions& options) { return predict_memory(shape, grid, options); }};
}

}  // namespace axonn
