#include "kernels/dropout_draw.hpp"

#include <ATen/ops/empty.h>

namespace axonn {

at::Tensor draw(const DropoutDraw& what, const at::Tensor& like) {
  if (like.is_cuda()) {
    at::Tensor mask = at::empty(like.sizes(), like.options().memory_format(at::MemoryFormat::Contiguous));
    for (const MaskColumns& columns : what.held)
      fill_cuda_mask(mask.mutable_data_ptr(), mask.scalar_type(), what.mask, columns, mask.get_device());
    return mask;
  }
  at::Tensor mask = at::empty({what.mask.rows, what.mask.width}, at::kFloat);
  for (const MaskColumns& columns : what.held) fill_mask(mask.mutable_data_ptr<float>(), what.mask, columns);
  return mask.to(like.options()).view(like.sizes());
}

}  // namespace axonn
