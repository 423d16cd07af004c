#include "axonn/core/error.hpp"
#include "optim/cuda/adamw_pass.hpp"

namespace axonn {

void adamw_pass(const AdamWPass&, int) {
  throw BackendError("optim.adamw", "this build has no CUDA, so it has no kernel adamw; use preset cuda");
}

}  // namespace axonn
