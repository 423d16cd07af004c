#include "layers/norms/rms_norm_rows.hpp"

#include <ATen/ops/sum.h>

#include "layers/operation.hpp"

namespace axonn {

Tensor square_sums(const Tensor& input) {
  return input.is_cpu() ? square_sums_on_cpu(input) : wide(input).square().sum(-1, /*keepdim=*/true);
}

RmsNormed rms_norm(const Tensor& input, const Tensor& weight, double epsilon) {
  if (input.is_cpu()) return rms_norm_on_cpu(input, weight, epsilon);
  const Tensor roots = square_sums(input).div_(static_cast<double>(input.size(-1))).add_(epsilon).rsqrt_();
  return {.output = rms_normalised(input, roots, weight), .roots = roots};
}

Tensor rms_normalised(const Tensor& input, const Tensor& roots, const Tensor& weight) {
  if (input.is_cpu()) return rms_normalised_on_cpu(input, roots, weight);
  return (wide(input) * roots).mul_(weight).to(input.scalar_type());
}

RmsGradientSums rms_gradient_sums(const Tensor& grad, const Tensor& input, const Tensor& roots, const Tensor& weight) {
  if (input.is_cpu()) return rms_gradient_sums_on_cpu(grad, input, roots, weight);
  const Tensor products = wide(grad) * (wide(input) * roots);
  return {.rows = (products * weight).sum(-1, /*keepdim=*/true), .weights = rows_of(products)};
}

Tensor rms_gradient(const Tensor& grad, const Tensor& input, const Tensor& roots, const Tensor& weight,
                    const Tensor& means) {
  if (input.is_cpu()) return rms_gradient_on_cpu(grad, input, roots, weight, means);
  return (wide(grad) * weight).sub_(wide(input) * roots * means).mul_(roots).to(grad.scalar_type());
}

}  // namespace axonn
