#pragma once

#include <string>

#include "axonn/layers/layout.hpp"

namespace axonn {

// Dropout whose mask depends only on (seed, sample number, position in the sample, feature), so
// every grid drops the same elements. `name` distinguishes the places of a network. Call
// Context::set_samples before the forward. Dim 0 of `value` is the sample, of Layout::rows if they
// are divided. If ranks divide sequences (ForwardSchedule::context), dim 1 is this rank's tokens.
Value dropout(Context& context, const Value& value, double probability, const std::string& name);

// The place of a tensor (batch, local heads, queries, keys) among all (heads, sequence, sequence)
// probabilities of a sample: it has samples from the rank's number `first_sample` on, heads from
// `first_head` on, rows from `first_query` on, and keys from `first_key` on.
struct ProbabilitiesPlace {
  int64_t first_sample = 0;
  int64_t first_head = 0, heads = 0;
  int64_t first_query = 0, first_key = 0, sequence = 0;
};

// The same for attention's probabilities.
at::Tensor dropout_attention(Context& context, const at::Tensor& probabilities, double probability,
                             const std::string& name, const ProbabilitiesPlace& place);

}  // namespace axonn
