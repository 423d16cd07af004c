#include "axonn/model/decoder/config.hpp"

#include <string>

#include "axonn/core/error.hpp"

namespace axonn {

void check_decoder(const DecoderConfig& config, const GridShape& grid) {
  check_decoder(config.shape);
  const std::string beyond = beyond_gpt2(config.shape);
  AXONN_CHECK(beyond.empty(), "model.decoder", "only networks of GPT-2's kind can be trained yet, and this one has ",
              beyond, ": leave that out; axonn-config plans it");
  AXONN_CHECK(config.dropout >= 0 && config.dropout < 1, "model.decoder", "dropout must be in [0, 1), got ",
              config.dropout);
  AXONN_CHECK(config.checkpoint_every >= 0, "model.decoder", "activation_checkpoint must be at least 0, got ",
              config.checkpoint_every);
  const auto divides = [&](int64_t value, const char* name, int64_t by, const char* by_name) {
    AXONN_CHECK(value % by == 0, "model.decoder", name, " must divide by ", by_name, ", got ", name, " = ", value,
                " and ", by_name, " = ", by, " (grid ", grid.to_string(), ")");
  };
  divides(config.shape.heads, "heads", grid.x, "x");
  divides(config.shape.hidden, "hidden", grid.x, "x");
  divides(config.shape.hidden, "hidden", grid.y, "y");
}

}  // namespace axonn
