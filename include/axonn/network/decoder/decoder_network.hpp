#pragma once

#include <string>

#include "axonn/grid/grid_shape.hpp"
#include "axonn/network/decoder/decoder_shape.hpp"
#include "axonn/network/layer_table.hpp"
#include "axonn/network/memory.hpp"
#include "axonn/network/network_model.hpp"

namespace axonn {

// With h = hidden, d features of a head, m = mlp(): embedding (V x h) -> blocks of norm, qkv
// (h x (heads + 2 kv_heads) d), attention, projection (heads d x h, transposed), residual, norm, up
// (h x m; gated: h x 2 m), activation, down (m x h, transposed), residual -> norm -> head (h x V)
// -> loss. Biases and positions, about a thousandth, are left out.
//
// Experts: their matrices are one weight with a tap per expert, sharded as every other weight: over
// X and Y within an expert, all together over Z and data. Tokens stay on their rank. Every token
// multiplies token_experts of them; all experts get the same number of tokens.
//
// A window of w of s tokens counts w (2 - w / s) scores of a query, as no window counts s: with the
// masked half.
LayerTable layer_table(const DecoderShape& shape);

// As MemoryPrediction says for a GPT, with the sizes of this decoder. Beside that, per block of
// experts: the inputs and outputs of each token's experts, 2 m token_experts h/Y. UserError when a
// size is outside its limits.
MemoryPrediction predict_memory(const DecoderShape& shape, const GridShape& grid, const MemoryOptions& options);

// UserError when a size is outside its limits. `name` is used in errors and reports. A grid is
// possible if x divides the heads of queries and of keys, and y divides hidden.
NetworkModel network_model(std::string name, const DecoderShape& shape);

}  // namespace axonn
