#include "axonn/core/error.hpp"
#include "layers/ops/dropout_mask.hpp"

namespace axonn {

void fill_cuda_mask(void*, c10::ScalarType, const DropoutMask&, const MaskColumns&, int) {
  throw BackendError("layers.dropout", "this build has no CUDA, so no mask is drawn on a GPU");
}

}  // namespace axonn
