#include "axonn/model/decoder/config.hpp"

#include <string>

#include "axonn/core/error.hpp"
#include "axonn/core/join.hpp"
#include "axonn/grid/divisors.hpp"

namespace axonn {

void check_decoder(const DecoderConfig& config, const GridShape& grid) {
  check_decoder(config.shape);
  const std::string beyond = untrained_parts(config.shape);
  AXONN_CHECK(beyond.empty(), "model.decoder", "this network cannot be trained yet, as it has ", beyond,
              ": leave that out; axonn-config plans it");
  AXONN_CHECK(config.dropout >= 0 && config.dropout < 1, "model.decoder", "dropout must be in [0, 1), got ",
              config.dropout);
  AXONN_CHECK(config.checkpoint_every >= 0, "model.decoder", "activation_checkpoint must be at least 0, got ",
              config.checkpoint_every);
  AXONN_CHECK(config.low_rank.rank >= 0 && config.low_rank.alpha > 0, "model.decoder",
              "lora_rank must be at least 0 and lora_alpha positive, got ", config.low_rank.rank, " and ",
              config.low_rank.alpha);
  const auto divides = [&](int64_t value, const char* name, int64_t by, const char* by_name) {
    AXONN_CHECK(value % by == 0, "model.decoder", name, " must divide by ", by_name, ", got ", name, " = ", value,
                " and ", by_name, " = ", by, " (grid ", grid.to_string(), ")");
  };
  divides(config.shape.heads, "heads", grid.x, "x");
  const int64_t keys = config.shape.keys();
  AXONN_CHECK(keys % grid.x == 0, "model.decoder", "x must divide the heads of keys, got kv_heads = ", keys,
              " and x = ", grid.x, " (grid ", grid.to_string(), "): x may be ", join(divisors(keys), ", "));
  divides(config.shape.hidden, "hidden", grid.y, "y");
}

}  // namespace axonn
