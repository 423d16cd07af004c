#pragma once

#include <optional>

#include "axonn/layers/blocks/mlp.hpp"
#include "axonn/layers/blocks/self_attention.hpp"
#include "axonn/layers/embedding.hpp"
#include "axonn/layers/linear.hpp"
#include "axonn/layers/norms/norm.hpp"
#include "axonn/model/decoder/config.hpp"

namespace axonn {

// How a decoder is placed on the grid: one entry per kind of layer. See parallelize_decoder.
struct DecoderPlan {
  EmbeddingOptions tokens;
  std::optional<PositionsOptions> positions;  // nothing: queries and keys are rotated
  NormOptions norm;                           // both norms of a block and the last one
  SelfAttentionOptions attention;
  MlpOptions mlp;
  LinearOptions head;
};

DecoderPlan parallelize_decoder(const DecoderConfig& config);

}  // namespace axonn
