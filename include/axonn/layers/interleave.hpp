#pragma once

#include <functional>
#include <initializer_list>
#include <vector>

#include "axonn/layers/layout.hpp"

namespace axonn {

// Rows on their way through a block.
struct BlockRows {
  std::vector<Value> inputs;  // of the block
  Value stream;               // what the block has so far, for its later stages; at the end its output
  PendingValue coming;        // what the stage before launched
};
using BlockStage = std::function<void(BlockRows& rows)>;

// The output of a block that is a list of stages; a stage begins by waiting for what the one before launched, and ends by launching a sum
// over an axis (layer->launch()). Plainly they run one after the other. With ContextOptions::split_forward parts of the rows they take
// turns on the parts, so that one part's sums move while another computes. Rows are in dim 0 of every input.
//
//   return interleave(context, {stream}, {
//       [&](BlockRows& rows) { rows.coming = up->launch(norm(rows.inputs[0])); },
//       [&](BlockRows& rows) { rows.coming = down->launch(gelu(rows.coming.wait())); },
//       [&](BlockRows& rows) { rows.stream = add(rows.inputs[0], rows.coming.wait()); }});
Value interleave(Context& context, const std::vector<Value>& inputs, std::initializer_list<BlockStage> stages);

}  // namespace axonn
