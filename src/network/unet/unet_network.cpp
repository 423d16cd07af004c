#include "axonn/network/unet/unet_network.hpp"

#include <algorithm>
#include <numeric>

#include "axonn/core/error.hpp"
#include "axonn/network/unet/unet_layers.hpp"
#include "axonn/network/unet/unet_memory.hpp"
#include "network/network_limits.hpp"

namespace axonn {
namespace {

constexpr int64_t kUsualPictures = 2048;  // Table II of the AxoNN paper

void at_most(const std::string& name, const char* what, int64_t value, int64_t most) {
  AXONN_CHECK(value <= most, "network.unet", name, ": ", what, " must be at most ", most, ", got ", value);
}

void check_sizes(const UnetShape& shape, const std::string& name) {
  at_most(name, "image", shape.image, limits::kImage);
  at_most(name, "channels", shape.channels, limits::kPictureChannels);
  at_most(name, "base", shape.base, limits::kChannels);
  at_most(name, "levels", static_cast<int64_t>(shape.multipliers.size()), limits::kLevels);
  for (const int64_t multiplier : shape.multipliers) {
    at_most(name, "every multiplier", multiplier, limits::kChannels);
    at_most(name, "base x multiplier", shape.base * multiplier, limits::kChannels);
  }
  at_most(name, "blocks", shape.blocks, limits::kBlocks);
  at_most(name, "heads", shape.heads, limits::kChannels);
  at_most(name, "groups", shape.groups, limits::kChannels);
  at_most(name, "classes", shape.classes, limits::kTokens);
  check_unet(shape);
}

std::string list_of(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

std::string toml_of(const UnetShape& shape) {
  const auto flag = [](bool on) { return on ? "true" : "false"; };
  return detail::concatenate("[model]\nimage = ", shape.image, "\nbase = ", shape.base, "\nmultipliers = ", list_of(shape.multipliers),
                             "\nblocks = ", shape.blocks, "\nattention = ", list_of(shape.attention), "\nheads = ", shape.heads,
                             "\ngroups = ", shape.groups, "\nclasses = ", shape.classes, "\nscale_shift = ", flag(shape.scale_shift),
                             "\n\n[diffusion]\nloss = \"", shape.learned_variance ? "hybrid" : "simple", "\"\n");
}

// The sizes that a grid must divide (check_unet in model/unet_config.hpp).
struct UnetDivisors {
  int64_t channels = 0;  // the greatest that divides the channels of all stages, the picture's aside
  int64_t heads = 0;
  std::vector<Axis> heads_over;

  explicit UnetDivisors(const UnetShape& shape) : heads(shape.heads) {
    for (const UnetStage& stage : unet_stages(shape)) {
      for (const int64_t size : {stage.in, stage.out})
        if (size != shape.channels && size != shape.output_channels()) channels = std::gcd(channels, size);
      const Axis axis = other_tensor_axis(channel_axis(stage.level));
      if (stage.kind == UnetStage::Kind::attention && std::ranges::find(heads_over, axis) == heads_over.end()) heads_over.push_back(axis);
    }
  }

  std::optional<std::string> misfit(const GridShape& grid) const {
    for (const Axis axis : {Axis::x, Axis::y})
      if (channels % grid[axis] != 0) return "channels % " + std::string(to_string(axis));
    for (const Axis axis : heads_over)
      if (heads % grid[axis] != 0) return "heads % " + std::string(to_string(axis));
    return std::nullopt;
  }
};

}  // namespace

NetworkModel unet_network(std::string name, const UnetShape& shape) {
  check_sizes(shape, name);
  return {
      .name = std::move(name),
      .layers = layer_table(shape),
      .program = "unet",
      .tokens = "pictures",
      .samples = "pictures",
      .tokens_per_sample = 1,
      .usual_batch = kUsualPictures,
      .parameters = count_parameters(shape),
      .misfit = [divisors = UnetDivisors(shape)](const GridShape& grid) { return divisors.misfit(grid); },
      .memory = [memory = UnetMemory(shape)](const GridShape& grid, const MemoryOptions& options) { return memory.predict(grid, options); },
      .toml = [shape] { return toml_of(shape); }};
}

}  // namespace axonn
