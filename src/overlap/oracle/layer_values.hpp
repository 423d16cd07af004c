#pragma once

#include "axonn/overlap/language/distribution.hpp"
#include "axonn/overlap/language/operation.hpp"
#include "overlap/oracle/rank_values.hpp"

namespace axonn::overlap {

// An operand of a layer as the ranks see it.
struct LayerOperand {
  Distribution distribution;
  RankValues values;
};

// Writes a range of the elements of matmul or conv2d. If both operands are sliced on the dim that
// is summed, every rank sums its own indices; otherwise it needs all of them.
void compute_layer(Operation layer, const LayerOperand& x, const LayerOperand& weight, const Cut& cut,
                   ElementRange range, RankValues& result);

}  // namespace axonn::overlap
