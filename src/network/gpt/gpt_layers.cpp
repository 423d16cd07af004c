#include "axonn/network/gpt/gpt_layers.hpp"

#include "axonn/network/decoder/decoder_network.hpp"

namespace axonn {

DecoderShape decoder_of(const GptShape& shape) {
  return {.layers = shape.layers,
          .hidden = shape.hidden,
          .heads = shape.heads,
          .mlp_hidden = shape.mlp_hidden,
          .sequence = shape.sequence,
          .vocabulary = shape.vocabulary,
          .positions = shape.sequence,
          .tied_head = shape.tied_head,
          .qkv_bias = true,
          .projection_bias = true,
          .mlp_bias = true,
          .norm_bias = true};
}

LayerTable layer_table(const GptShape& shape) {
  check_gpt(shape);
  return layer_table(decoder_of(shape));
}

}  // namespace axonn
