#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/dropout_mask.hpp"

namespace axonn {

// The mask of a tensor of `mask.rows` rows of `mask.width` elements. This rank's columns of a row
// are those `held`.
struct DropoutDraw {
  DropoutMask mask;
  std::vector<MaskColumns> held;
};

// The whole mask, laid out like `like` and drawn on its device.
at::Tensor draw(const DropoutDraw& what, const at::Tensor& like);

}  // namespace axonn
