#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "axonn/grid/grid_shape.hpp"

namespace axonn {

// How the work of a layer is divided over X and Y. All work is also divided over Z and data, with
// the rows.
enum class WorkSplit : uint8_t {
  matrix,  // matrix product, over X and Y
  over_x,  // attention, norms and elementwise work, only over X: every Y rank does the same work
  over_y,  // the same, only over Y
};

// Work and weights of one layer of a network, on the whole grid, per unit (a token of a GPT, an
// image of a UNet) and forward pass. Backward has twice the FLOPs and elements. The planner's times
// and the trainer's utilisation use the same table: forward_flops of each network sums it.
struct LayerWork {
  std::string name;
  WorkSplit split = WorkSplit::matrix;
  bool in_block = false;  // in a repeated block: the papers' equations count only those; checkpointing runs them twice
  int64_t count = 1;      // layers of this kind
  double flops = 0;       // a multiply-add counts as 2
  double elements = 0;    // elements read and written beside the product: the cost of a memory-bound layer

  // The weight is k x n. A convolution of k channels to n has one such matrix per tap. k = 0: no
  // weight. Plain layers take k over Y to n over X, transposed ones k over X to n over Y. A
  // convolution reads and writes several rows (pixels) per unit.
  int64_t k = 0, n = 0;
  int64_t taps = 1;
  double rows_in = 1, rows_out = 1;
  bool transposed = false;
  bool gives_input_gradient = true;                // false: nothing before it needs one
  bool owns_weight = true;                         // false: another layer gathers and reduces it (a tied head)
  bool whole_input = false, whole_output = false;  // k or n is not sharded (image channels): no sum over that axis

  // Communication beside the sums of products, over the axis of `split`.
  int64_t norm_groups = 0;             // groups of a group norm; a group on two ranks exchanges its statistics
  std::vector<int64_t> segments = {};  // channels of the norm, each segment split separately
  double moved = 0;                    // elements per unit moved from `split` to the other axis; back in backward

  // Elements per unit of attention's queries, as many as its outputs', and of its keys and values.
  double queries = 0, keys_values = 0;

  bool has_weight() const { return k > 0; }
  double weights() const { return static_cast<double>(taps) * static_cast<double>(k) * static_cast<double>(n); }
  Axis in_axis() const { return transposed ? Axis::x : Axis::y; }
  Axis out_axis() const { return transposed ? Axis::y : Axis::x; }
  Axis split_axis() const { return split == WorkSplit::over_x ? Axis::x : Axis::y; }  // for layers without a product
  bool operator==(const LayerWork&) const = default;
};
using LayerTable = std::vector<LayerWork>;

}  // namespace axonn
