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

// Left out: the process itself (code, libraries), buffers of unfinished messages, and the data.
// With the inputs and outputs of each token's experts, per block of experts 2 m token_experts h/Y.
// UserError when a size is outside its limits.
MemoryPrediction predict_memory(const DecoderShape& shape, const GridShape& grid, const MemoryOptions& options);

// UserError when a size is outside its limits. `name` is used in errors and reports. A grid is
// possible if x divides the heads of queries and of keys, and y divides hidden.
NetworkModel network_model(std::string name, const DecoderShape& shape);

// Operations per token of one forward pass, those of the layer table; a multiply-add counts as 2.
// For a GPT-2 of l layers, sequence s and vocabulary V:
//   l (8 h^2 + 4 h m + 4 s h) + 2 V h
// These are the matrices of a block (4 h^2 + 2 h m elements: 12 h^2 where m = 4 h), the scores and
// their product with the values (the whole s x s square, also under a causal mask), and the head
// (also when tied). Norms, activations and biases are left out, as usual.
double forward_flops_per_token(const DecoderShape& shape);

// Forward and backward: 3 times the forward. Utilisation is measured in these "model FLOPs", in
// which recomputation does not count.
double model_flops_per_token(const DecoderShape& shape);

// The FLOPs that the AxoNN paper reports (section VI-C, Narayanan et al.'s formula): hardware FLOPs
// of a step of B sequences with activation checkpointing, where the blocks run forward twice. For a
// GPT-2 with m = 4 h:
//   96 B s l h^2 (1 + s / (6 h) + V / (16 l h))
double checkpointed_flops(const DecoderShape& shape, double sequences);

}  // namespace axonn
