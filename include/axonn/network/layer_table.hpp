#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "axonn/grid/grid_shape.hpp"

namespace axonn {

// How the work of a layer is divided. All of it is divided over Z and data, with the rows.
enum class WorkSplit : uint8_t {
  matrix,  // a product, over X and Y
  over_x,  // attention, norms and what is done element by element, on X alone: every Y rank does the same work
  over_y,  // the same on Y alone
};

// Work and weights of one layer of a network, per sample unit (a token of a GPT, a picture of a UNet) of the whole grid and forward pass;
// backward has twice the FLOPs and elements. One table for the planner's seconds and the trainer's utilisation (forward_flops of
// each network sums it).
struct LayerWork {
  std::string name;
  WorkSplit split = WorkSplit::matrix;
  bool in_block = false;  // of what a network repeats: the papers' equations count no other, activation checkpointing runs it twice
  int64_t count = 1;      // layers of this kind
  double flops = 0;       // a multiply-add counted as 2
  double elements = 0;    // read and written beside the product: what a layer bound by memory costs

  // The weight, k x n (of a convolution k channels to n, a matrix for each of its taps); k = 0: none. Plain layers take k over Y to n over
  // X, transposed ones X to Y. A convolution sees and gives several rows (pixels) a unit.
  int64_t k = 0, n = 0;
  int64_t taps = 1;
  double rows_in = 1, rows_out = 1;
  bool transposed = false;
  bool gives_input_gradient = true;                // false: nothing before it needs one
  bool owns_weight = true;                         // false: another layer gathers and reduces it (a tied head)
  bool whole_input = false, whole_output = false;  // k or n is not split (3 channels of a picture): nothing to sum over that axis

  // What moves beside the sums of products, over the axis of `split`.
  int64_t norm_groups = 0;             // of a group norm: where a group lies on two ranks, its statistics are exchanged
  std::vector<int64_t> segments = {};  // its channels, each segment split on its own
  double moved = 0;                    // elements a unit that are brought from over `split` to over the other axis, and back in backward

  bool has_weight() const { return k > 0; }
  double weights() const { return static_cast<double>(taps) * static_cast<double>(k) * static_cast<double>(n); }
  Axis in_axis() const { return transposed ? Axis::x : Axis::y; }
  Axis out_axis() const { return transposed ? Axis::y : Axis::x; }
  Axis split_axis() const { return split == WorkSplit::over_x ? Axis::x : Axis::y; }  // of a layer that is no product
  bool operator==(const LayerWork&) const = default;
};
using LayerTable = std::vector<LayerWork>;

}  // namespace axonn
