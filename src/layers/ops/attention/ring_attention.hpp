#pragma once

#include <array>
#include <optional>

#include "layers/operation.hpp"
#include "layers/ops/attention/attention_rules.hpp"

namespace axonn {

struct RingAttentionOptions {
  AttentionTerms terms;
  // The axis whose ranks have the same heads, and divide the rows of these queries, too
  // (DividedRows). Nothing: each of them attends all.
  std::optional<Axis> rows = {};
};

// Attention in a ring of ranks (grid/context_ring.hpp), each of which has some tokens of every
// sequence: queries, keys and values (batch, tokens, heads, f) of this rank's -> (batch, tokens,
// heads f). Keys and values go round the ring from rank to rank, while each rank attends those that
// it has (ring attention; Liu et al., 2023). In backward they go round once more, and behind them
// their gradients, in the type of the heads, to which each rank adds its own. It keeps its inputs,
// the output, and a number per query and head; no scores. Every rank of the grid calls it.
Tensor ring_attention(Context& context, const std::array<Tensor, 3>& heads, RingAttentionOptions options);

}  // namespace axonn
