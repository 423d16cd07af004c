#pragma once

#include <memory>

#include "axonn/layers/embedding.hpp"
#include "layers/operation.hpp"

namespace axonn {

// The rows of an embedding's table, for record(), laid out as `output`. `fused`: the gradient by
// kernels of ours (fused/embedding_rows.hpp), only where the table's gradients are wide.
std::unique_ptr<Operation> embedding_operation(Context& context, ShardedParameter weight,
                                               const EmbeddingOptions& options, Layout output, bool fused);

}  // namespace axonn
