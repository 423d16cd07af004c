#include "axonn/model/gpt/config.hpp"

#include "axonn/core/error.hpp"

namespace axonn {

GptShape GptConfig::shape() const {
  return {.layers = layers, .hidden = hidden, .heads = heads, .sequence = sequence, .vocabulary = vocabulary, .tied_head = tied_head};
}

void check_gpt(const GptConfig& config, const GridShape& grid) {
  const auto positive = [](int64_t value, const char* name) {
    AXONN_CHECK(value > 0, "model.gpt", name, " must be positive, got ", value);
  };
  positive(config.layers, "layers");
  positive(config.hidden, "hidden");
  positive(config.heads, "heads");
  positive(config.sequence, "sequence");
  positive(config.vocabulary, "vocab");
  AXONN_CHECK(config.dropout >= 0 && config.dropout < 1, "model.gpt", "dropout must be in [0, 1), got ", config.dropout);
  AXONN_CHECK(config.checkpoint_every >= 0, "model.gpt", "activation_checkpoint must be at least 0, got ", config.checkpoint_every);
  AXONN_CHECK(config.split_forward >= 1, "model.gpt", "split_forward must be at least 1, got ", config.split_forward);
  const auto divides = [&](int64_t value, const char* name, int64_t by, const char* by_name) {
    AXONN_CHECK(value % by == 0, "model.gpt", name, " must divide by ", by_name, ", got ", name, " = ", value, " and ", by_name, " = ", by,
                " (grid ", grid.to_string(), ")");
  };
  divides(config.hidden, "hidden", config.heads, "heads");
  divides(config.heads, "heads", grid.x, "x");
  divides(config.hidden, "hidden", grid.x, "x");
  divides(config.hidden, "hidden", grid.y, "y");
}

}  // namespace axonn
