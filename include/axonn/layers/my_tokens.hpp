#pragma once

#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>

#include "axonn/core/error.hpp"
#include "axonn/grid/context_ring.hpp"
#include "axonn/layers/context.hpp"

// Sequences that ForwardSchedule::context neighbours along Z divide among them. If that is 1, a
// rank has all tokens of its rows. Nothing is exchanged.
namespace axonn {

// The runs of a rank that has `tokens` tokens of each sequence.
inline std::vector<TokenRun> my_runs(const Context& context, int64_t tokens) {
  const int64_t ranks = context.options().forward.context, sequence = tokens * ranks;
  check_sequence(sequence, ranks);
  const ContextRing ring = context_ring(context.shape(), context.at(), ranks);
  return token_runs(sequence, ring.ranks, ring.mine);
}

// The place in its sequence of each of these tokens: (tokens) int64.
inline at::Tensor my_places(const Context& context, int64_t tokens, c10::Device device) {
  std::vector<at::Tensor> parts;
  for (const TokenRun& run : my_runs(context, tokens))
    parts.push_back(at::arange(run.place, run.place + run.rows.size(), at::TensorOptions(at::kLong).device(device)));
  return parts.size() == 1 ? parts.front() : at::cat(parts, 0);
}

// This rank's tokens of sequences that all of these ranks have: of dim 1 of (batch, sequence, ...).
// UserError unless the sequence divides (check_sequence()).
inline at::Tensor my_tokens(const Context& context, const at::Tensor& whole) {
  const int64_t ranks = context.options().forward.context;
  if (ranks == 1) return whole;
  AXONN_CHECK(whole.dim() >= 2, "layers.my_tokens", "needs (batch, sequence, ...), got sizes ", whole.sizes());
  check_sequence(whole.size(1), ranks);
  std::vector<at::Tensor> parts;
  for (const TokenRun& run : my_runs(context, whole.size(1) / ranks))
    parts.push_back(whole.narrow(1, run.place, run.rows.size()));
  return at::cat(parts, 1);
}

}  // namespace axonn
