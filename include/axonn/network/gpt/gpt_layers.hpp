#pragma once

#include "axonn/network/decoder/decoder_shape.hpp"
#include "axonn/network/gpt/gpt_shape.hpp"
#include "axonn/network/layer_table.hpp"

namespace axonn {

// The same network among all decoders. Its learned positions are as many as its sequence.
DecoderShape decoder_of(const GptShape& shape);

// h = hidden, m = mlp(): embedding (V x h) -> blocks of norm, qkv (h x 3h), attention, projection
// (h x h, transposed), residual, norm, up (h x m), gelu, down (m x h, transposed), residual -> norm
// -> head (h x V) -> loss. Biases and position embeddings, about a thousandth, are left out.
LayerTable layer_table(const GptShape& shape);

}  // namespace axonn
