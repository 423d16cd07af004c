#pragma once

#include <functional>
#include <initializer_list>
#include <vector>

#include "axonn/layers/layout.hpp"

namespace axonn {

// The rows that pass through a block.
struct BlockRows {
  std::vector<Value> inputs;  // the block's inputs
  Value stream;               // the result so far, for later stages; at the end the block's output
  PendingValue coming;        // launched by the previous stage
};
using BlockStage = std::function<void(BlockRows& rows)>;

// The output of a block that is a list of stages. A stage begins by waiting for the sum that the
// previous stage launched, and ends by launching a sum over an axis (layer->launch()). Normally the
// stages run one after the other. With ContextOptions::forward.split parts of the rows they
// alternate between the parts, so that one part's sums move while another computes. Rows are in dim
// 0 of every input.
//
//   return interleave(context, {stream}, {
//       [&](BlockRows& rows) { rows.coming = up->launch(norm(rows.inputs[0])); },
//       [&](BlockRows& rows) { rows.coming = down->launch(gelu(rows.coming.wait())); },
//       [&](BlockRows& rows) { rows.stream = add(rows.inputs[0], rows.coming.wait()); }});
Value interleave(Context& context, const std::vector<Value>& inputs, std::initializer_list<BlockStage> stages);

}  // namespace axonn
