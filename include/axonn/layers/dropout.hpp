#pragma once

#include <string>

#include "axonn/layers/layout.hpp"

namespace axonn {

// Dropout whose mask depends on (seed, sample number, position in the sample, feature) alone, so every grid drops the same elements.
// `name` tells the places of a network apart. Needs Context::set_samples before the forward; dim 0 of `value` is the sample.
Value dropout(Context& context, const Value& value, double probability, const std::string& name);

// The same for attention probabilities (batch, heads of this rank, queries, keys); `first_head` of `heads` is this rank's first.
at::Tensor dropout_attention(Context& context, const at::Tensor& probabilities, double probability, const std::string& name,
                             int64_t first_head, int64_t heads);

}  // namespace axonn
