#pragma once

#include "axonn/network/gpt/gpt_shape.hpp"
#include "axonn/network/layer_table.hpp"

namespace axonn {

// h = hidden: embedding (V x h) -> blocks of norm, qkv (h x 3h), attention, projection (h x h, transposed), residual, norm, up (h x 4h),
// gelu, down (4h x h, transposed), residual -> norm -> head (h x V) -> loss. Left out: biases and position embeddings, a thousandth.
LayerTable layer_table(const GptShape& shape);

}  // namespace axonn
