#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "axonn/grid/grid_shape.hpp"
#include "axonn/network/sizes.hpp"

// Sizes of a UNet after improved diffusion (Nichol and Dhariwal, 2021), the list of its stages, and
// formulas for its parameters and floating-point operations. Network, trainer and planner share
// them.
namespace axonn {

struct UnetShape {
  int64_t image = 32;                            // height and width of an image
  int64_t channels = 3;                          // channels of an image
  int64_t base = 64;                             // channels of the first level
  std::vector<int64_t> multipliers = {1, 2, 2};  // channels per level / base; every further level halves the image
  int64_t blocks = 2;                            // residual blocks per level (one more on the way up)
  std::vector<int64_t> attention = {16};         // heights with attention after each residual block; and in the middle
  int64_t heads = 4;
  int64_t groups = 32;            // groups of every norm
  int64_t classes = 0;            // 0: without class conditioning
  bool scale_shift = false;       // the embedding scales and shifts a block's second norm instead of being added before
  bool learned_variance = false;  // twice the output channels (hybrid loss)

  int64_t embedding() const { return 4 * base; }  // features of the time embedding
  // Features that a residual block of `out` channels takes from the embedding: scales and shifts,
  // or the values to add.
  int64_t conditioning(int64_t out) const { return scale_shift ? 2 * out : out; }
  int64_t output_channels() const { return learned_variance ? 2 * channels : channels; }
  bool operator==(const UnetShape&) const = default;
};

template <>
struct Sizes<UnetShape> {
  static constexpr std::string_view kNetwork = "UNet";
  static std::span<const Preset<UnetShape>> presets();
  static UnetShape base(std::span<const std::string>) { return {}; }
  template <typename Visit>
  static void visit(const Visit& size) {
    constexpr int64_t kImage = 4096, kChannels = 1 << 16;
    size(SizeTerms{.key = "image", .help = "height and width of an image", .most = kImage}, &UnetShape::image);
    size(SizeTerms{.key = "channels", .help = "channels of an image", .most = 1024, .planner_only = true},
         &UnetShape::channels);
    size(SizeTerms{.key = "base", .help = "channels of the first level", .most = kChannels}, &UnetShape::base);
    size(SizeTerms{.key = "multipliers",
                   .help = "channels per level / base; every further level halves the image",
                   .most = kChannels},
         &UnetShape::multipliers);
    size(SizeTerms{.key = "blocks", .help = "residual blocks per level", .most = 64}, &UnetShape::blocks);
    size(SizeTerms{.key = "attention", .help = "heights with attention after every residual block", .most = kImage},
         &UnetShape::attention);
    size(SizeTerms{.key = "heads", .help = "attention heads", .most = kChannels}, &UnetShape::heads);
    size(SizeTerms{.key = "groups", .help = "groups of every group norm", .most = kChannels}, &UnetShape::groups);
    size(SizeTerms{.key = "classes",
                   .help = "classes for conditioning; 0: none, -1: those of the data",
                   .least = 0,
                   .most = 1 << 24,
                   .from_data = FromData{.number = -1, .assumed = 0}},
         &UnetShape::classes);
    size(SizeTerms{.key = "scale_shift",
                   .help = "the time embedding scales and shifts a block's second norm instead of being added"},
         &UnetShape::scale_shift);
    size(SizeTerms{.key = "learned_variance",
                   .help = "twice the output channels",
                   .planner_only = true,
                   .word = FileWord{.section = "diffusion", .key = "loss", .off = "simple", .on = "hybrid"}},
         &UnetShape::learned_variance);
  }
};

// UserError unless every size is within its limits, the image can be halved for every further
// level, and groups and heads divide the channels.
void check_unet(const UnetShape& shape);

// One stage of the network:
//   first      3x3 convolution
//   residual   norm, SiLU, convolution, embedding, norm, SiLU, convolution;
//              1x1 convolution where channels change
//   attention  norm, qkv, self-attention over pixels, projection, added
//   down       3x3 convolution of stride 2
//   up         nearest neighbours, 3x3 convolution
//   last       norm, SiLU, 3x3 convolution
struct UnetStage {
  enum class Kind : uint8_t { first, residual, attention, down, up, last };
  Kind kind = Kind::residual;
  std::string name;   // "down.3.residual": prefix of its parameters
  int64_t level = 0;  // level of its input
  int64_t size = 0;   // height and width of its input
  int64_t in = 0;     // input channels, including those of the skip
  int64_t out = 0;
  int64_t skip = 0;   // channels of the last kept activation, concatenated before its input
  bool kept = false;  // its output is kept for a skip
};
std::vector<UnetStage> unet_stages(const UnetShape& shape);

// The axis that shards the channels of a level's activations. The first level's stream is sharded
// over Y and replicated over X. The convolution between two levels leaves the stream on the other
// axis, so the levels alternate, on the way down and on the way up.
Axis channel_axis(int64_t level);

int64_t count_parameters(const UnetShape& shape);

// Operations per image of one forward pass; a multiply-add counts as 2. Convolutions, linear layers
// and attention: the sum of layer_table.hpp. Norms, activations and biases are left out.
double forward_flops(const UnetShape& shape);

}  // namespace axonn
