#pragma once

#include <array>
#include <memory>
#include <vector>

#include "axonn/layers/rotary.hpp"
#include "layers/operation.hpp"

namespace axonn {

// (batch, ..., (q + k + v) features of a head) -> three views (batch, sequence, heads, features of
// a head), with `heads` of queries, keys and values. `rotary`, if given, turns queries and keys in
// place, sample b from position first[b] on; so nobody may read the input afterwards. Backward
// hands over three gradients that lie in one tensor as the views lie in the input; it copies others
// into one.
std::unique_ptr<TensorOperation> heads_operation(std::array<int64_t, 3> heads,
                                                 std::shared_ptr<const Rotary> rotary = {},
                                                 std::vector<int64_t> first = {});

// Three tensors, with `keys` heads of keys and of values and the sizes `queries` (batch, sequence,
// heads, features of a head), which lie in one as heads_operation()'s views do.
std::vector<Tensor> heads_in_one(at::IntArrayRef queries, int64_t keys, const at::TensorOptions& options);

}  // namespace axonn
