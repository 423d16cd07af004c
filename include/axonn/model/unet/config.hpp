#pragma once

#include "axonn/grid/grid_shape.hpp"
#include "axonn/network/unet/unet_shape.hpp"

namespace axonn {

// A UNet after improved diffusion: GroupNorm and SiLU before every convolution, a time embedding in every residual block.
struct UnetConfig {
  UnetShape shape = {};
  double dropout = 0;               // before the second convolution of a residual block
  int64_t checkpoint_every = 0;     // activation checkpointing: of every n-th block only the inputs are kept; 0: of none
  bool checkpoint_offload = false;  // and those in the host's memory

  // Blocks are the stages between the first convolution and the last norm, from 0.
  bool checkpointed(int64_t block) const { return checkpoint_every > 0 && block % checkpoint_every == 0; }
};

// Throws UserError unless the sizes fit each other and the grid: the channels of every stage but the picture's divide by x and by y, heads
// by the axis that attention is split over.
void check_unet(const UnetConfig& config, const GridShape& grid);

}  // namespace axonn
