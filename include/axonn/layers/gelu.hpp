#pragma once

#include "axonn/layers/layout.hpp"
#include "axonn/layers/parameter.hpp"

namespace axonn {

// GELU in its tanh form (Hendrycks and Gimpel, 2016; PyTorch's `tanh`) of value + bias:
// v / 2 (1 + tanh(u)) = v sigmoid(2 u), u = sqrt(2/pi) (v + 0.044715 v^3). The bias belongs to the
// layer before, which was made with LinearOptions::adds_bias = false, and has the features of this
// rank. Backward computes its gradient in the same pass. On CPUs both are chains of stages
// (docs/coconet.md), in fp32 for bf16 and fp16: bits depend neither on the instruction set nor on
// the number of threads. Nothing is exchanged, but in backward the bias's gradient over the ranks
// that divide the rows (Layout::rows).
Value gelu(const Value& value, const ShardedParameter& bias);

// The same without a bias, by LibTorch.
Value gelu(const Value& value);

}  // namespace axonn
