#pragma once

#include <cstdint>

#include "axonn/grid/grid_shape.hpp"
#include "axonn/network/decoder/decoder_shape.hpp"

namespace axonn {

// A GPT of the GPT-2 architecture: pre-norm blocks, learned positions, tanh GELU, biases everywhere
// but in the head.
struct DecoderConfig {
  DecoderShape shape = {.layers = 4, .hidden = 128, .heads = 4, .sequence = 128, .vocabulary = 256};
  double dropout = 0;               // after the embeddings, on attention probabilities, on both branches of a block
  int64_t checkpoint_every = 0;     // activation checkpointing: every n-th block keeps only its input; 0: no block
  bool checkpoint_offload = false;  // keep that input in host memory

  bool checkpointed(int64_t block) const { return checkpoint_every > 0 && block % checkpoint_every == 0; }
};

// Throws UserError unless the sizes fit each other and the grid: hidden % heads, heads % x, hidden
// % x, hidden % y.
void check_decoder(const DecoderConfig& config, const GridShape& grid);

}  // namespace axonn
