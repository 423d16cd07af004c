#pragma once

#include <ATen/core/Tensor.h>

#include "axonn/layers/layout.hpp"

namespace axonn {

// The layout of a residual stream whose features are over `features`. `rows`: the sizes of the dims
// before them, (batch, sequence). The ranks of the other tensor axis divide the rows where
// ContextOptions::forward.norm_rows says so, unless there are fewer rows than ranks. The same on
// all ranks, which agreed on `automatic` when they made the Context. Nothing is exchanged.
Layout stream_layout(Context& context, Axis features, at::IntArrayRef rows);

}  // namespace axonn
