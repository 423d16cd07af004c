#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "axonn/grid/grid_shape.hpp"
#include "axonn/network/sizes.hpp"

// Sizes of a UNet after improved diffusion (Nichol and Dhariwal, 2021), the list of its stages, and its parameters and floating-point
// operations by formula. Network, trainer and planner share them.
namespace axonn {

struct UnetShape {
  int64_t image = 32;                            // height and width of a picture
  int64_t channels = 3;                          // of a picture
  int64_t base = 64;                             // channels of the first level
  std::vector<int64_t> multipliers = {1, 2, 2};  // of base, one a level; every level halves height and width
  int64_t blocks = 2;                            // residual blocks a level (one more on the way up)
  std::vector<int64_t> attention = {16};         // heights at which every residual block is followed by attention; the middle always is
  int64_t heads = 4;
  int64_t groups = 32;            // of every norm
  int64_t classes = 0;            // 0: without class conditioning
  bool scale_shift = false;       // the embedding scales and shifts the second norm of a residual block instead of being added before it
  bool learned_variance = false;  // twice the channels come out (hybrid loss)

  int64_t embedding() const { return 4 * base; }  // features of the time embedding
  // Features that a residual block of `out` channels takes from the embedding: scales and shifts, or what is added.
  int64_t conditioning(int64_t out) const { return scale_shift ? 2 * out : out; }
  int64_t output_channels() const { return learned_variance ? 2 * channels : channels; }
  bool operator==(const UnetShape&) const = default;
};

template <>
struct Sizes<UnetShape> {
  static constexpr std::string_view kNetwork = "UNet";
  static std::span<const Preset<UnetShape>> presets();
  template <typename Visit>
  static void visit(const Visit& size) {
    constexpr int64_t kImage = 4096, kChannels = 1 << 16;
    size(SizeTerms{.key = "image", .help = "height and width of a picture", .most = kImage}, &UnetShape::image);
    size(SizeTerms{.key = "channels", .help = "of a picture", .most = 1024, .planner_only = true}, &UnetShape::channels);
    size(SizeTerms{.key = "base", .help = "channels of the first level", .most = kChannels}, &UnetShape::base);
    size(SizeTerms{.key = "multipliers", .help = "of base, one a level; every level halves the picture", .most = kChannels},
         &UnetShape::multipliers);
    size(SizeTerms{.key = "blocks", .help = "residual blocks a level", .most = 64}, &UnetShape::blocks);
    size(SizeTerms{.key = "attention", .help = "heights at which every residual block is followed by attention", .most = kImage},
         &UnetShape::attention);
    size(SizeTerms{.key = "heads", .help = "attention heads", .most = kChannels}, &UnetShape::heads);
    size(SizeTerms{.key = "groups", .help = "of every group norm", .most = kChannels}, &UnetShape::groups);
    size(SizeTerms{.key = "classes",
                   .help = "classes that the network is told; 0: none, -1: those of the data",
                   .least = 0,
                   .most = 1 << 24,
                   .from_data = FromData{.number = -1, .assumed = 0}},
         &UnetShape::classes);
    size(SizeTerms{.key = "scale_shift", .help = "the time scales and shifts the second norm of a block instead of being added"},
         &UnetShape::scale_shift);
    size(SizeTerms{.key = "learned_variance",
                   .help = "twice the channels come out",
                   .planner_only = true,
                   .word = FileWord{.section = "diffusion", .key = "loss", .off = "simple", .on = "hybrid"}},
         &UnetShape::learned_variance);
  }
};

// UserError unless every size is within its limits, the picture can be halved at every level, and groups and heads divide the channels.
void check_unet(const UnetShape& shape);

// One step of the network. first: 3x3 convolution. residual: norm, SiLU, convolution, embedding, norm, SiLU, convolution, plus a 1x1
// convolution where channels change. attention: norm, qkv, self-attention over pixels, projection, added. down: 3x3 convolution of
// stride 2. up: nearest neighbours, 3x3 convolution. last: norm, SiLU, 3x3 convolution.
struct UnetStage {
  enum class Kind : uint8_t { first, residual, attention, down, up, last };
  Kind kind = Kind::residual;
  std::string name;   // "down.3.residual": of its parameters
  int64_t level = 0;  // of its input
  int64_t size = 0;   // height and width of its input
  int64_t in = 0;     // channels, those of the skip among them
  int64_t out = 0;
  int64_t skip = 0;   // channels of the activation kept last that come before its input
  bool kept = false;  // its output is kept for a skip
};
std::vector<UnetStage> unet_stages(const UnetShape& shape);

// The axis over which the activations of a level have their channels. The stream of the first level has them over Y and is the same on all
// X ranks. The convolution between two levels takes it to the other axis for good: levels take turns, the way up as the way down.
Axis channel_axis(int64_t level);

int64_t count_parameters(const UnetShape& shape);

// Operations of one picture's forward pass, a multiply-add counted as 2: convolutions, linear layers, attention: the sum of
// layer_table.hpp. Norms, activations and biases are left out.
double forward_flops(const UnetShape& shape);

}  // namespace axonn
