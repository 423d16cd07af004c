#pragma once

#include <string>

#include "axonn/layers/layout.hpp"

namespace axonn {

// Dropout whose mask depends only on (seed, sample number, position in the sample, feature), so
// every grid drops the same elements. `name` distinguishes the places of a network. Call
// Context::set_samples before the forward. Dim 0 of `value` is the sample.
Value dropout(Context& context, const Value& value, double probability, const std::string& name);

// The same for attention probabilities (batch, local heads, queries, keys). `first_head` is this
// rank's first of the `heads` heads.
at::Tensor dropout_attention(Context& context, const at::Tensor& probabilities, double probability,
                             const std::string& name, int64_t first_head, int64_t heads);

}  // namespace axonn
