#pragma once

#include <ATen/core/Tensor.h>

namespace axonn {

// The sum of squares of a flat tensor as an fp64 scalar, on its device, without a wait of the host.
// On the CPU, rows of fp32 are summed in fp32 and the rows in fp64, which is 1e-6 of the sum away
// at most, and infinite where the sum of a row is larger than fp32 can hold.
// A GPU sums fp32 in fp32, in parts of some thousand elements: infinite where the sum is larger
// than fp32 can hold.
at::Tensor sum_of_squares(const at::Tensor& flat);

}  // namespace axonn
