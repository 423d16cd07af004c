#pragma once

#include <memory>
#include <vector>

#include "layers/operation.hpp"

namespace axonn {

struct ChainedLinear {
  ShardedParameter weight;  // (n, k)
  ShardedParameter bias;    // (n)
};

// x -> ... gelu(x W^T + b) ... -> x W^T + b + stream, as one operation: GELU is between the layers,
// and `stream`, of the output's sizes, may be undefined. Its products do everything on the way
// (product.hpp), so there are as many launches as products, and a sum per bias where gradients are
// added to those of earlier micro-batches. The caller gives the stream its gradient (SecondInput).
std::unique_ptr<Operation> linear_chain(std::vector<ChainedLinear> layers, Tensor stream);

}  // namespace axonn
