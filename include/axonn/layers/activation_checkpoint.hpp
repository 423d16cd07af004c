#pragma once

#include <functional>

#include "axonn/layers/layout.hpp"

namespace axonn {

struct CheckpointOptions {
  bool offload = false;  // keep the input in the host's memory; nothing changes on CPU
};

// block(input), of which nothing but the input is kept: backward runs the block again, bit for bit (dropout follows sample numbers, see
// Context::set_samples), and then its backward. Weights are gathered again unless the scheduler's cache has them; their uses count once. An
// input that wants no gradient, or no autograd: the plain block. `block` is kept until backward and must give the same result then.
Value activation_checkpoint(Context& context, const std::function<Value(const Value&)>& block, const Value& input,
                            CheckpointOptions options = {});

}  // namespace axonn
