#pragma once

#include <array>
#include <memory>
#include <vector>

#include "axonn/grid/context_ring.hpp"
#include "axonn/layers/rotary.hpp"
#include "layers/operation.hpp"

namespace axonn {

// Turns queries and keys: those of `runs` by their places in a sequence, which begins at position
// first[b] in sample b, or at 0 if `first` is empty.
struct HeadsRotation {
  std::shared_ptr<const Rotary> rotary;  // null: they are not turned
  std::vector<int64_t> first = {};
  std::vector<TokenRun> runs = {};  // all tokens that are there
};

// (batch, ..., (q + k + v) features of a head) -> three views (batch, sequence, heads, features of
// a head), with `heads` of queries, keys and values. A rotation turns queries and keys in place; so
// nobody may read the input afterwards. Backward hands over three gradients that lie in one tensor
// as the views lie in the input; it copies others into one.
std::unique_ptr<TensorOperation> heads_operation(std::array<int64_t, 3> heads, HeadsRotation rotation);

// Three tensors, with `keys` heads of keys and of values and the sizes `queries` (batch, sequence,
// heads, features of a head), which lie in one as heads_operation()'s views do.
std::vector<Tensor> heads_in_one(at::IntArrayRef queries, int64_t keys, const at::TensorOptions& options);

// Memory for the gradients of queries, keys and values: in one tensor, if there are as many queries
// as keys.
std::vector<Tensor> gradients_like(const std::array<Tensor, 3>& heads);

}  // namespace axonn
