#pragma once

#include "axonn/wrap/shard.hpp"

namespace axonn {

// For training in fp16, whose small gradients would be zero: the loss was multiplied by `scale`,
// and this divides the gradients of local() by it. False, on every rank, if one of them is infinite
// or not a number on any rank: then the step must be left out, and the scale be smaller. With
// LossScale, which chooses the scale:
//
//   axonn::LossScale scale({});
//   ...
//     (loss * scale.value()).backward();
//     step.finish();
//     if (axonn::unscale_grad_(parameters, scale.value())) {
//       axonn::clip_grad_norm_(parameters, 1.0);
//       optimizer.step();
//       scale.applied();
//     } else if (!scale.skipped()) {
//       throw std::runtime_error("too many overflows in a row");
//     }
//
// Every rank of the grid calls it, after Step::finish(). UserError if a gradient is missing.
[[nodiscard]] bool unscale_grad_(const WrappedModule& parameters, double scale);

}  // namespace axonn
