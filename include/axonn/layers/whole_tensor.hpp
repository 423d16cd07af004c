#pragma once

#include <ATen/core/Tensor.h>

#include "axonn/layers/context.hpp"

namespace axonn {

// The whole tensor of which each rank holds a range: `held`, this rank's elements, as
// ArenaSlot::range has them -> (global sizes), on the device of `held`. Collective of the ranks of
// each (x, y, z) group; each replica over data gathers its own.
at::Tensor whole_tensor(Context& context, const ArenaSlot& slot, const at::Tensor& held);

// That of a parameter's master weights. UserError while an optimizer keeps them.
at::Tensor whole_weight(Context& context, const ShardedParameter& parameter);

}  // namespace axonn
