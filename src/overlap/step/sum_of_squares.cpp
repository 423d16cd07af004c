#include "axonn/overlap/step/sum_of_squares.hpp"

#include <ATen/ops/linalg_vector_norm.h>

namespace axonn {
namespace {

constexpr int64_t kRow = 1024;  // LibTorch sums it in vectors if the type of the result is fp32 too

}  // namespace

at::Tensor sum_of_squares(const at::Tensor& flat) {
  // On a GPU, LibTorch would first copy it into the type of the result.
  if (flat.is_cuda() && flat.scalar_type() == at::kFloat)
    return at::linalg_vector_norm(flat, 2).to(at::kDouble).square_();
  const int64_t rows = flat.is_cpu() && flat.scalar_type() == at::kFloat ? flat.numel() / kRow : 0;
  const at::Tensor rest = flat.narrow(0, rows * kRow, flat.numel() - rows * kRow);
  at::Tensor sum = at::linalg_vector_norm(rest, 2, at::OptionalIntArrayRef(), /*keepdim=*/false, at::kDouble).square_();
  if (rows == 0) return sum;
  const at::Tensor norms = at::linalg_vector_norm(flat.narrow(0, 0, rows * kRow).view({rows, kRow}), 2, 1);
  return sum.add_(norms.to(at::kDouble).square_().sum());
}

}  // namespace axonn
