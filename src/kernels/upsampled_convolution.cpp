#include "kernels/upsampled_convolution.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "kernels/cpu/image.hpp"

namespace axonn {
namespace {

using at::Tensor;

// Output row 2i + place sees input rows i - 1 + place and i + place. Their kernel rows are (0, 1 +
// 2) for place 0 and (0 + 1, 2) for place 1. Likewise columns. `dim` of 3 becomes 2.
Tensor folded(const Tensor& weight, int64_t dim, int64_t place) {
  const Tensor first = weight.select(dim, 0), middle = weight.select(dim, 1), last = weight.select(dim, 2);
  return place == 0 ? at::stack({first, middle + last}, dim) : at::stack({first + middle, last}, dim);
}

// The reverse: adds a gradient of folded weights to the gradient of the weights.
void unfold_into(const Tensor& sum, const Tensor& grad, int64_t dim, int64_t place) {
  const Tensor first = grad.select(dim, 0), last = grad.select(dim, 1);
  sum.select(dim, 0).add_(first);
  sum.select(dim, 1).add_(place == 0 ? last : first);
  sum.select(dim, 2).add_(last);
}

// The four kernels (row place, column place), concatenated: (4 n, 2, 2, k).
Tensor four_kernels(const Tensor& weight) {
  std::vector<Tensor> kernels;
  for (const int64_t row : {0, 1})
    for (const int64_t column : {0, 1}) kernels.push_back(folded(folded(weight, 1, row), 2, column));
  return at::stack(kernels).flatten(0, 1);
}

// All four convolve the image padded by 1, which gives (h + 1, w + 1). A place takes the (h, w)
// outputs that begin at its own row and column.
Tensor at_place(const Tensor& four /* (b, h + 1, w + 1, 4 n) */, int64_t row, int64_t column) {
  const int64_t n = four.size(3) / 4;
  return four.narrow(1, row, four.size(1) - 1).narrow(2, column, four.size(2) - 1).narrow(3, (2 * row + column) * n, n);
}

Tensor place_of(const Tensor& output /* (b, 2h, 2w, n) */, int64_t row, int64_t column) {
  return output.slice(1, row, std::nullopt, 2).slice(2, column, std::nullopt, 2);
}

Tensor gathered_places(const Tensor& grad) {
  const Tensor four =
      at::zeros({grad.size(0), grad.size(1) / 2 + 1, grad.size(2) / 2 + 1, 4 * grad.size(3)}, grad.options());
  for (const int64_t row : {0, 1})
    for (const int64_t column : {0, 1}) at_place(four, row, column).copy_(place_of(grad, row, column));
  return four;
}

std::tuple<Tensor, Tensor, Tensor> gradients(const Tensor& four, const Tensor& input, const Tensor& kernels,
                                             std::array<bool, 3> wanted) {
  return at::convolution_backward(
      channels_second(four), channels_second(input), channels_second(kernels), std::nullopt, /*stride=*/{1, 1},
      /*padding=*/{1, 1}, /*dilation=*/{1, 1}, /*transposed=*/false, at::IntArrayRef{0, 0}, /*groups=*/1, wanted);
}

}  // namespace

Tensor upsampled_convolution(const Tensor& input, const Tensor& weight) {
  const Tensor four =
      channels_last(at::convolution(channels_second(input), channels_second(four_kernels(weight)), std::nullopt, {1, 1},
                                    {1, 1}, {1, 1}, /*transposed=*/false, {0, 0}, /*groups=*/1));
  const Tensor output =
      at::empty({input.size(0), 2 * input.size(1), 2 * input.size(2), weight.size(0)}, input.options());
  for (const int64_t row : {0, 1})
    for (const int64_t column : {0, 1}) place_of(output, row, column).copy_(at_place(four, row, column));
  return output;
}

Tensor upsampled_input_gradient(const Tensor& grad, const Tensor& weight) {
  // LibTorch reads only its sizes.
  const Tensor input = at::empty({grad.size(0), grad.size(1) / 2, grad.size(2) / 2, weight.size(3)}, grad.options());
  return channels_last(
      std::get<0>(gradients(gathered_places(grad), input, four_kernels(weight), {true, false, false})));
}

Tensor upsampled_weight_gradient(const Tensor& grad, const Tensor& input) {
  const int64_t n = grad.size(3), k = input.size(3);
  const Tensor kernels = at::empty({4 * n, 2, 2, k}, input.options());  // LibTorch reads only its sizes
  const Tensor four =
      std::get<1>(gradients(gathered_places(grad), input, kernels, {false, true, false})).permute({0, 2, 3, 1});
  const Tensor sum = at::zeros({n, 3, 3, k}, input.options());
  for (const int64_t row : {0, 1}) {
    const Tensor rows = at::zeros({n, 2, 3, k}, input.options());
    for (const int64_t column : {0, 1}) unfold_into(rows, four.narrow(0, (2 * row + column) * n, n), 2, column);
    unfold_into(sum, rows, 1, row);
  }
  return sum;
}

}  // namespace axonn
