#include "kernels/gpu/linear_terms.hpp"

#include <mutex>

#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/sum.h>

#include "axonn/core/log.hpp"
#include "kernels/gpu/product.hpp"

namespace axonn {
namespace {

using at::Tensor;

// Of two dims, contiguous or the transpose of such a tensor.
ProductMatrix matrix(const Tensor& tensor) {
  const bool transposed = !tensor.is_contiguous();
  return {.data = tensor.data_ptr(),
          .type = tensor.scalar_type(),
          .rows = tensor.size(0),
          .columns = tensor.size(1),
          .leading = tensor.size(transposed ? 0 : 1),
          .transposed = transposed};
}

Product product_of(const LinearTerms& terms) {
  const auto read = [](const Tensor& tensor) { return tensor.defined() ? tensor.const_data_ptr() : nullptr; };
  const auto write = [](const Tensor& tensor) { return tensor.defined() ? tensor.mutable_data_ptr() : nullptr; };
  return {.out = matrix(terms.out),
          .a = matrix(terms.a),
          .b = matrix(terms.b),
          .added = read(terms.added),
          .bias = read(terms.bias),
          .gelu_input = write(terms.gelu_input),
          .gelu_gradient_at = read(terms.gelu_gradient_at),
          .sums_of_a = write(terms.sums_of_a)};
}

void say_missing(const LinearTerms& terms) {
  static std::once_flag once;
  std::call_once(once, [&] {
    const char* what = terms.sums_of_a.defined()          ? "bias's gradient"
                       : terms.gelu_gradient_at.defined() ? "GELU's gradient"
                       : terms.gelu_input.defined()       ? "GELU"
                                                          : "bias";
    log::warn("cuBLASLt has no product of ", terms.a.sizes(), " and ", terms.b.sizes(), " in ", terms.a.dtype(),
              " with the ", what, " in it: such products and what follows them are launches of their own");
  });
}

}  // namespace

bool multiply_at_once(const LinearTerms& terms) { return multiply(product_of(terms), terms.out.get_device()); }

void multiply_apart(const LinearTerms& terms) {
  Tensor out = terms.out;
  const Tensor& product = terms.gelu_input.defined() ? terms.gelu_input : out;
  multiply(product_of({.out = product, .a = terms.a, .b = terms.b, .added = terms.added}), out.get_device());
  if (terms.bias.defined()) product.add_(terms.bias);
  if (terms.gelu_input.defined()) at::gelu_out(out, product, "tanh");
  if (terms.gelu_gradient_at.defined()) at::gelu_backward_out(out, out, terms.gelu_gradient_at, "tanh");
  if (terms.sums_of_a.defined()) {
    Tensor sums = terms.sums_of_a;
    at::sum_out(sums, terms.a, 1, /*keepdim=*/false, sums.scalar_type());
  }
}

void multiply(const LinearTerms& terms) {
  if (multiply_at_once(terms)) return;
  say_missing(terms);
  multiply_apart(terms);
}

}  // namespace axonn
