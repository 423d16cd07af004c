#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace axonn {

// Products of a few rows by a whole weight take as long as the weight takes to be read from memory:
// a token that is written has one row. LibTorch's products of one row are slower than that (MKL's
// on AMD, bf16).

// Whether row_dots() takes them: at most four rows and a contiguous weight, on a CPU, in fp32 or
// bf16.
bool has_row_dots(const at::Tensor& rows, const at::Tensor& weight);

// rows (m, k) weight (n, k)^T -> (m, n), plus `bias` (n) if it is defined. Sums are in fp32, and do
// not depend on the number of threads.
at::Tensor row_dots(const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias = {});

}  // namespace axonn
