#pragma once

#include "axonn/layers/layout.hpp"

namespace axonn {

// silu(gate) * value of an activation in two equal segments gate|value; silu(v) = v sigmoid(v)
// (Shazeer, GLU Variants Improve Transformer, 2020). Features are halved; the axis and
// divided rows stay. On CPUs forward and backward are chains of stages (docs/coconet.md), in fp32
// for bf16 and fp16: bits depend neither on the instruction set nor on the number of threads.
// Nothing is exchanged. UserError unless the layout has two equal segments.
Value swiglu(const Value& hidden);

}  // namespace axonn
