#pragma once

#include "axonn/network/layer_table.hpp"
#include "axonn/network/unet/unet_shape.hpp"

namespace axonn {

// The stages of unet_stages() in the layout of model/unet/parallelize.cpp. A is the axis of the
// level's stream (channel_axis), B the other axis:
//   residual   norm and SiLU (A) -> in (A to B) -> embedding added -> norm and SiLU (B)
//              -> out (B to A) -> residual. Its shortcut (1x1, A to B), where channels change, is
//              moved to A.
//   attention  norm (A) -> qkv (A to B) -> attention (B) -> projection (B to A) -> residual
//   down, up   A to B, the next level's A
// first and last are not sharded on the image's side. Equal layers are one row. Left out: the loss,
// and the local copies of a change of layout.
LayerTable layer_table(const UnetShape& shape);

}  // namespace axonn
