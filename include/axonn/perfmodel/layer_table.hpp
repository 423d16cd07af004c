#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "axonn/perfmodel/transformer.hpp"

namespace axonn {

// How the work of a layer is divided. All of it is divided over Z and data, with the rows.
enum class WorkSplit : uint8_t {
  matrix,  // a product, over X and Y
  over_x,  // attention and the mlp's middle, on X alone: every Y rank does the same work
  over_y,  // norms and residual sums, on Y alone
};

// Work and weights of one layer of a network, per token of the whole grid and forward pass; backward has twice the FLOPs and elements. One
// table for the planner's seconds and the trainer's utilisation (transformer.hpp sums it).
struct LayerWork {
  std::string_view name;
  WorkSplit split = WorkSplit::matrix;
  bool in_block = false;             // of a repeated block, which activation checkpointing runs forward twice
  int64_t count = 1;                 // layers of this kind
  double flops = 0;                  // a multiply-add counted as 2
  double elements = 0;               // read and written beside the product: what a layer bound by memory costs
  int64_t k = 0, n = 0;              // the weight, k x n; 0: none. Plain layers take k over Y to n over X, transposed ones X to Y
  bool transposed = false;           // roles of X and Y swapped
  bool gives_input_gradient = true;  // false: nothing before it needs one
  bool owns_weight = true;           // false: another layer gathers and reduces it (a tied head)

  bool has_weight() const { return k > 0; }
  double weights() const { return static_cast<double>(k) * static_cast<double>(n); }
};
using LayerTable = std::vector<LayerWork>;

// h = hidden: embedding (V x h) -> blocks of norm, qkv (h x 3h), attention, projection (h x h, transposed), residual, norm, up (h x 4h),
// gelu, down (4h x h, transposed), residual -> norm -> head (h x V) -> loss. Left out: biases and position embeddings, a thousandth.
LayerTable layer_table(const TransformerShape& shape);

}  // namespace axonn
