#pragma once

#include <span>
#include <string_view>

#include "axonn/network/unet/unet_shape.hpp"

namespace axonn {

using UnetPreset = Preset<UnetShape>;

// unet-tiny, unet-cifar (improved diffusion's for CIFAR-10, 53 M), and unet250m .. unet4b of Table
// II of the AxoNN paper (images of 32 x 32, four levels of three residual blocks). The paper does
// not give the multipliers (here improved diffusion's 1 2 2 2), attention and heads (here at 16 and
// 8, 4 heads).
inline std::span<const UnetPreset> unet_presets() { return Sizes<UnetShape>::presets(); }

// Throws UserError with the nearest name, or all names, when there is none.
inline const UnetPreset& find_unet_preset(std::string_view name) { return find_preset(unet_presets(), name); }

}  // namespace axonn
