#include "axonn/network/unet/unet_network.hpp"

#include <algorithm>
#include <numeric>

#include "axonn/network/unet/unet_memory.hpp"
#include "network/unet/unet_layers.hpp"

namespace axonn {
namespace {

constexpr int64_t kUsualImages = 2048;  // Table II of the AxoNN paper

// The axes of a grid must divide these sizes (check_unet in model/unet/config.hpp).
struct UnetDivisors {
  int64_t channels = 0;  // greatest common divisor of the channels of all stages, except the image's
  int64_t heads = 0;
  std::vector<Axis> heads_over;

  explicit UnetDivisors(const UnetShape& shape) : heads(shape.heads) {
    for (const UnetStage& stage : unet_stages(shape)) {
      for (const int64_t size : {stage.in, stage.out})
        if (size != shape.channels && size != shape.output_channels()) channels = std::gcd(channels, size);
      const Axis axis = other_tensor_axis(channel_axis(stage.level));
      if (stage.kind == UnetStage::Kind::attention && std::ranges::find(heads_over, axis) == heads_over.end())
        heads_over.push_back(axis);
    }
  }

  std::optional<std::string> why_impossible(const GridShape& grid) const {
    for (const Axis axis : {Axis::x, Axis::y})
      if (channels % grid[axis] != 0) return "channels % " + std::string(to_string(axis));
    for (const Axis axis : heads_over)
      if (heads % grid[axis] != 0) return "heads % " + std::string(to_string(axis));
    return std::nullopt;
  }
};

int64_t blocks_of(const UnetShape& shape) {
  using Kind = UnetStage::Kind;
  return std::ranges::count_if(
      unet_stages(shape), [](const UnetStage& stage) { return stage.kind != Kind::first && stage.kind != Kind::last; });
}

}  // namespace

NetworkModel network_model(std::string name, const UnetShape& shape) {
  check_unet(shape);
  return {.name = std::move(name),
          .layers = layer_table(shape),
          .blocks = blocks_of(shape),
          .program = "unet",
          .tokens = "images",
          .samples = "images",
          .tokens_per_sample = 1,
          .usual_batch = kUsualImages,
          .parameters = count_parameters(shape),
          .sizes = sizes_of(shape),
          .why_impossible = [divisors =
                                 UnetDivisors(shape)](const GridShape& grid) { return divisors.why_impossible(grid); },
          .memory = [memory = UnetMemory(shape)](
                        const GridShape& grid, const MemoryOptions& options) { return memory.predict(grid, options); }};
}

}  // namespace axonn
