#pragma once

#include <string>

#include "axonn/layers/attention.hpp"
#include "axonn/layers/embedding.hpp"
#include "axonn/layers/linear.hpp"
#include "axonn/layers/norms/layer_norm.hpp"
#include "axonn/model/gpt/config.hpp"

namespace axonn {

// How a GPT is placed on the grid: one entry per kind of layer. See parallelize_gpt.
struct GptPlan {
  EmbeddingOptions tokens;
  PositionsOptions positions;
  LayerNormOptions norm;  // both norms of a block and the last one
  LinearOptions qkv;
  AttentionOptions attention;
  LinearOptions attention_out;
  LinearOptions mlp_up;
  LinearOptions mlp_down;
  LinearOptions head;
};

GptPlan parallelize_gpt(const GptConfig& config);

}  // namespace axonn
