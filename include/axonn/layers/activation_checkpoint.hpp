#pragma once

#include <functional>
#include <vector>

#include "axonn/layers/layout.hpp"

namespace axonn {

struct CheckpointOptions {
  bool offload = false;  // keep the inputs in the host's memory; nothing changes on CPU
};

using CheckpointedBlock = std::function<Value(const std::vector<Value>& inputs)>;

// block(inputs), of which nothing but the inputs is kept: backward runs the block again, bit for bit (dropout follows sample numbers, see
// Context::set_samples), and then its backward. The gradient of an input that has other consumers too is summed in the block first. Weights
// are gathered again unless the scheduler's cache has them; their uses count once. No input that wants a gradient, or no autograd: the
// plain block. `block` is kept until backward and must give the same result then.
Value activation_checkpoint(Context& context, const CheckpointedBlock& block, const std::vector<Value>& inputs,
                            CheckpointOptions options = {});

}  // namespace axonn
