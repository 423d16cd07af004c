#pragma once

#include "axonn/grid/grid_shape.hpp"
#include "axonn/network/unet/unet_shape.hpp"

namespace axonn {

// The UNet of improved diffusion: GroupNorm and SiLU before every convolution, a time embedding in
// every residual block.
struct UnetConfig {
  UnetShape shape = {};
  double dropout = 0;               // before the second convolution of a residual block
  int64_t checkpoint_every = 0;     // activation checkpointing: every n-th block keeps only its inputs; 0: no block
  bool checkpoint_offload = false;  // keep those inputs in host memory

  // Blocks are the stages between the first convolution and the last norm, from 0.
  bool checkpointed(int64_t block) const { return checkpoint_every > 0 && block % checkpoint_every == 0; }
};

// Throws UserError unless the sizes fit each other and the grid. x and y must divide the channels
// of every stage, except the image's. The axis that attention is split over must divide the heads.
void check_unet(const UnetConfig& config, const GridShape& grid);

}  // namespace axonn
