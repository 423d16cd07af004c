#pragma once

#include <optional>

#include "axonn/layers/attention.hpp"
#include "layers/operation.hpp"

namespace axonn {

// Attention where the ranks of a ring (grid/context_ring.hpp) have other tokens of each sequence:
// `heads` of this rank's tokens (batch, t, heads, f) -> (batch, t, heads f). Keys and values go round
// the ring from rank to rank, while each rank attends those that it has (ring attention; Liu et al.,
// 2023). In backward they go round once more, and behind them their gradients, in the type of the
// heads, to which each rank adds its own. It keeps its inputs, the output, and a number per query
// and head; no scores. `documents`: document_mask() of this rank's queries, or undefined.
//
// `rows`: the axis whose ranks have the same heads and divide the rows of these queries, too
// (DividedRows); nothing: each has all. Every rank of the grid calls it.
Tensor ring_attention(Context& context, const AttentionHeads& heads, const AttentionOptions& options,
                      const Tensor& documents, std::optional<Axis> rows);

}  // namespace axonn
