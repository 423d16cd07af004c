#include "axonn/wrap/unscale_grad.hpp"

#include <cmath>
#include <limits>

#include <ATen/core/grad_mode.h>

#include "axonn/core/error.hpp"

namespace axonn {

bool unscale_grad_(const WrappedModule& parameters, double scale) {
  AXONN_CHECK(scale > 0, "wrap.unscale", "the scale must be positive, got ", scale,
              "; give the factor by which the loss was multiplied");
  const at::NoGradGuard no_grad;
  if (!std::isfinite(clip_grad_norm_(parameters, std::numeric_limits<double>::infinity()))) return false;
  for (const at::Tensor& each : parameters.local()) each.grad().div_(scale);
  return true;
}

}  // namespace axonn
