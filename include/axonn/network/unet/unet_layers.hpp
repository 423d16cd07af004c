#pragma once

#include "axonn/network/layer_table.hpp"
#include "axonn/network/unet/unet_shape.hpp"

namespace axonn {

// The stages of unet_stages() as model/unet/parallelize.cpp lays them out: with a level's stream over A (channel_axis), B the other axis,
//   residual   norm and SiLU (A) -> in (A to B) -> embedding added -> norm and SiLU (B) -> out (B to A) -> residual, whose shortcut (1x1,
//              A to B) is brought to A where channels change
//   attention  norm (A) -> qkv (A to B) -> attention (B) -> projection (B to A) -> residual
//   down, up   A to B, the next level's A
// first and last are whole on the picture's side. Equal layers are one row. Left out: the loss, and what cut and copy a change of layout.
LayerTable layer_table(const UnetShape& shape);

}  // namespace axonn
