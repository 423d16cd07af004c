#pragma once

#include <cstdint>

#include "axonn/grid/grid_shape.hpp"
#include "axonn/perfmodel/transformer.hpp"

namespace axonn {

// A GPT of the GPT-2 architecture: pre-norm blocks, learned positions, tanh GELU, biases everywhere but in the head.
struct GptConfig {
  int64_t layers = 4;
  int64_t hidden = 128;
  int64_t heads = 4;
  int64_t sequence = 128;    // longest
  int64_t vocabulary = 256;
  bool tied_head = false;    // the head's weight is the token embedding
  double dropout = 0;        // after the embeddings, on attention probabilities, on both branches of a block

  TransformerShape shape() const;  // what the planner's tables take
};

// Throws UserError unless the sizes fit each other and the grid: hidden % heads, heads % x, hidden % x, hidden % y.
void check_gpt(const GptConfig& config, const GridShape& grid);

}  // namespace axonn
