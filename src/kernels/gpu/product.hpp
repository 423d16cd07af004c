#pragma once

#include <cstdint>

#include <c10/core/ScalarType.h>

// Products that do more on the way: cuBLASLt's epilogues (linear_chain.hpp).
namespace axonn {

// In CUDA device memory: element (i, j) is data[i * leading + j], or, transposed,
// data[j * leading + i].
struct ProductMatrix {
  void* data = nullptr;
  c10::ScalarType type = c10::ScalarType::Float;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t leading = 0;
  bool transposed = false;
};

// out (m, n) = a b^T of a (m, k) and b (n, k), not empty, with one of these, or none:
//   bias:              a b^T + bias; with gelu_input, that is a b^T + bias, and out is GELU of it
//   gelu_gradient_at:  a b^T, times the derivative of GELU at these values
//   sums_of_a:         a b^T, and the sums of a's rows, over k
// GELU in its tanh form. Sums are in fp32, rounded once. All but a and b have out's type.
struct Product {
  ProductMatrix out, a, b;                 // out: not transposed
  const void* added = nullptr;             // (m, n), with out's leading: added before the bias; may be out itself
  const void* bias = nullptr;              // (n)
  void* gelu_input = nullptr;              // (m, n), with out's leading, which 8 must divide
  const void* gelu_gradient_at = nullptr;  // the same
  void* sums_of_a = nullptr;               // (m)
};

// On the current stream of CUDA device `device`. Returns false, and does nothing, if cuBLASLt has
// no product with what follows it. BackendError if it has none without either, and if CUDA is not
// built in. The first product of a shape measures up to 8 of cuBLASLt's algorithms, which waits for
// the device, and later ones take the fastest; with deterministic kernels it is cuBLASLt's own
// choice.
bool multiply(const Product& product, int device);

}  // namespace axonn
