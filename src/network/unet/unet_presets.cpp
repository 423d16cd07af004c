#include "axonn/network/unet/unet_presets.hpp"

namespace axonn {
namespace {

UnetShape table_2(int64_t base) {
  return {.base = base, .multipliers = {1, 2, 2, 2}, .blocks = 3, .attention = {16, 8}, .scale_shift = true};
}

}  // namespace

std::span<const UnetPreset> Sizes<UnetShape>::presets() {
  static const std::vector<UnetPreset> presets = {
      {"unet-tiny", {.image = 16, .base = 32, .multipliers = {1, 2}, .blocks = 1, .attention = {8}, .groups = 8}},
      {"unet-cifar",
       {.base = 128,
        .multipliers = {1, 2, 2, 2},
        .blocks = 3,
        .attention = {16, 8},
        .scale_shift = true,
        .learned_variance = true}},
      {"unet250m", table_2(256)},
      {"unet500m", table_2(416)},
      {"unet1b", table_2(512)},
      {"unet2b", table_2(768)},
      {"unet4b", table_2(1024)},
  };
  return presets;
}

}  // namespace axonn
