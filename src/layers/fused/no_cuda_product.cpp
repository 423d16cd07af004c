#include "axonn/core/error.hpp"
#include "layers/fused/product.hpp"

namespace axonn {

void multiply(const Product&, int) {
  throw BackendError(
      "layers.product",
      "this build has no CUDA, so it has no cuBLASLt; use preset cuda, or unset AXONN_PRODUCT_EPILOGUES");
}

}  // namespace axonn
