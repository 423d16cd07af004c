#include "axonn/network/gpt/gpt_network.hpp"

#include <algorithm>

#include "axonn/core/error.hpp"
#include "axonn/network/gpt/gpt_layers.hpp"
#include "axonn/network/gpt/gpt_memory.hpp"
#include "network/network_limits.hpp"

namespace axonn {
namespace {

constexpr int64_t kUsualTokens = int64_t{4} << 20;  // Table I of the AxoNN paper

void at_most(const std::string& name, const char* what, int64_t value, int64_t most) {
  AXONN_CHECK(value <= most, "network.gpt", name, ": ", what, " must be at most ", most, ", got ", value);
}

void check_sizes(const GptShape& shape, const std::string& name) {
  check_gpt(shape);
  at_most(name, "layers", shape.layers, limits::kLayers);
  at_most(name, "hidden", shape.hidden, limits::kHidden);
  at_most(name, "sequence", shape.sequence, limits::kTokens);
  at_most(name, "vocab", shape.vocabulary, limits::kTokens);
  const double stream = static_cast<double>(shape.layers) * static_cast<double>(shape.hidden);
  const double widest = static_cast<double>(std::max(shape.hidden, shape.sequence));
  AXONN_CHECK(stream * widest <= limits::kElements, "network.gpt", name,
              ": layers x hidden x (hidden or sequence) must be at most ", limits::kElements, ", got ", stream * widest);
}

std::string toml_of(const GptShape& shape) {
  return detail::concatenate("[model]\nlayers = ", shape.layers, "\nhidden = ", shape.hidden, "\nheads = ", shape.heads,
                             "\nsequence = ", shape.sequence, "\nvocab = ", shape.vocabulary,
                             "\ntied = ", shape.tied_head ? "true" : "false", "\n");
}

}  // namespace

NetworkModel gpt_network(std::string name, const GptShape& shape) {
  check_sizes(shape, name);
  return {.name = std::move(name),
          .layers = layer_table(shape),
          .program = "gpt",
          .tokens = "tokens",
          .samples = "sequences",
          .tokens_per_sample = shape.sequence,
          .usual_batch = kUsualTokens,
          .parameters = count_parameters(shape).total(),
          .misfit = [shape](const GridShape& grid) -> std::optional<std::string> {
            if (shape.heads % grid.x != 0) return "heads % x";
            if (shape.hidden % grid.y != 0) return "hidden % y";
            return std::nullopt;
          },
          .memory = [shape](const GridShape& grid, const MemoryOptions& options) { return predict_memory(shape, grid, options); },
          .toml = [shape] { return toml_of(shape); }};
}

}  // namespace axonn
