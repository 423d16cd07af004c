#include "layers/ops/dropout_draw.hpp"

#include <ATen/ops/empty.h>

namespace axonn {

at::Tensor draw(const DropoutDraw& what, const at::Tensor& like) {
  at::Tensor mask =
      at::empty({what.mask.rows, what.mask.width}, at::TensorOptions().dtype(at::kFloat).device(like.device()));
  float* out = mask.mutable_data_ptr<float>();
  for (const MaskColumns& columns : what.held) {
    if (mask.is_cuda())
      fill_cuda_mask(out, what.mask, columns, mask.device().index());
    else
      fill_mask(out, what.mask, columns);
  }
  return mask.to(like.options()).view(like.sizes());
}

}  // namespace axonn
