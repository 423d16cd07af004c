#pragma once

#include <ATen/core/Tensor.h>

namespace axonn {

// The terms of a product (product.hpp) as tensors of a GPU; those that are not defined take no
// part.
struct LinearTerms {
  at::Tensor out, a, b, added, bias, gelu_input, gelu_gradient_at, sums_of_a;
};

// By one product of cuBLASLt. Returns false, and does nothing, if cuBLASLt has no such product.
bool multiply_at_once(const LinearTerms& terms);
// By a plain product, and a launch for each of the rest, which rounds once more. `added` may be
// `out`.
void multiply_apart(const LinearTerms& terms);
// At once where that is possible, else apart, of which a line of the log tells once.
void multiply(const LinearTerms& terms);

}  // namespace axonn
