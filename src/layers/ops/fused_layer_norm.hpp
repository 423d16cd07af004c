#pragma once

#include <memory>

#include "layers/operation.hpp"

namespace axonn {

// LayerNorm over all features of a row, for record_branch(): its backward is two launches of ours,
// and the gradient of the stream is in its result. Only where fused_layer_norm_fits().
std::unique_ptr<Operation> fused_layer_norm(ShardedParameter weight, ShardedParameter bias, double epsilon);

// Whether the kernels take such rows, where gradients are of type `gradients`.
bool fused_layer_norm_fits(const Tensor& rows, at::ScalarType gradients);

}  // namespace axonn
