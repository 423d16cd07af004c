#pragma once

#include "axonn/coconet/language/distribution.hpp"
#include "axonn/coconet/language/operation.hpp"
#include "coconet/oracle/rank_values.hpp"

namespace axonn::coconet {

// An operand of a layer as the ranks see it.
struct LayerOperand {
  Distribution distribution;
  RankValues values;
};

// Writes a range of the elements of matmul or conv2d. If both operands are sliced on the dim that
// is summed, every rank sums its own indices; otherwise it needs all of them.
void compute_layer(Operation layer, const LayerOperand& x, const LayerOperand& weight, const Cut& cut,
                   ElementRange range, RankValues& result);

}  // namespace axonn::coconet
