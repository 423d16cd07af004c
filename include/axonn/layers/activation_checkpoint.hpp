#pragma once

#include <functional>
#include <vector>

#include "axonn/layers/layout.hpp"

namespace axonn {

struct CheckpointOptions {
  bool offload = false;  // keep the inputs in pinned host memory; no effect on CPU
};

using CheckpointedBlock = std::function<Value(const std::vector<Value>& inputs)>;

// Returns block(inputs) and keeps only the inputs. Backward runs the block again, bit for bit, and
// then its backward. Dropout follows sample numbers, see Context::set_samples. If an input has
// other consumers too, its gradient within the block is summed first. Weights are gathered again
// unless they are in the scheduler's cache; their uses count once. If no input needs a gradient, or
// autograd is off, it only calls the block. `block` is kept until backward and must give the same
// result then.
Value activation_checkpoint(Context& context, const CheckpointedBlock& block, const std::vector<Value>& inputs,
                            CheckpointOptions options = {});

}  // namespace axonn
