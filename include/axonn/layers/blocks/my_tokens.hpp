#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "axonn/grid/context_ring.hpp"

namespace axonn {

class Context;

// Sequences that ForwardSchedule::context neighbours along Z divide among them. Where that is 1, a
// rank has all tokens of its rows. Nothing is exchanged.

// This rank's tokens of sequences that all of these ranks have: dim 1 of (batch, sequence, ...).
// UserError unless the sequence divides (check_sequence()).
at::Tensor my_tokens(const Context& context, const at::Tensor& whole);

// Of a rank with `tokens` tokens of each sequence: the runs that they form, and the place of each in
// its sequence, (tokens) int64.
std::vector<TokenRun> my_runs(const Context& context, int64_t tokens);
at::Tensor my_places(const Context& context, int64_t tokens, c10::Device device);

}  // namespace axonn
