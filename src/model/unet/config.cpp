#include "axonn/model/unet/config.hpp"

#include "axonn/core/error.hpp"
#include "axonn/model/unet/parallelize.hpp"

namespace axonn {

void check_unet(const UnetConfig& config, const GridShape& grid) {
  constexpr const char* kWhere = "model.unet";
  check_unet(config.shape);
  AXONN_CHECK(config.dropout >= 0 && config.dropout < 1, kWhere, "dropout must be in [0, 1), got ", config.dropout);
  AXONN_CHECK(config.checkpoint_every >= 0, kWhere, "activation_checkpoint must be at least 0, got ",
              config.checkpoint_every);
  for (const UnetStage& stage : unet_stages(config.shape)) {
    for (const int64_t channels : {stage.in, stage.out})
      for (const Axis axis : {Axis::x, Axis::y})
        AXONN_CHECK(channels == config.shape.channels || channels == config.shape.output_channels() ||
                        channels % grid[axis] == 0,
                    kWhere, "channels must divide by ", to_string(axis), ", got ", channels, " channels in ",
                    stage.name, " and ", to_string(axis), " = ", grid[axis], " (grid ", grid.to_string(), ")");
    if (stage.kind != UnetStage::Kind::attention) continue;
    const Axis axis = parallelize_attention(config.shape, stage).attention.attention.axis;
    AXONN_CHECK(config.shape.heads % grid[axis] == 0, kWhere, "heads must divide by ", to_string(axis), ", got ",
                config.shape.heads, " heads in ", stage.name, " and ", to_string(axis), " = ", grid[axis], " (grid ",
                grid.to_string(), ")");
  }
}

}  // namespace axonn
