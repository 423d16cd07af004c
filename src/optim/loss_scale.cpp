#include "axonn/optim/loss_scale.hpp"

#include <cmath>

#include "axonn/core/error.hpp"

namespace axonn {

LossScale::LossScale(LossScaleOptions options) : options_(options), state_{.value = options.initial} {
  AXONN_CHECK(std::isfinite(options.initial) && options.initial > 0, "optim.loss_scale",
              "loss_scale must be positive, got ", options.initial);
  AXONN_CHECK(options.interval >= 1 && options.most_skips >= 1, "optim.loss_scale",
              "loss_scale_interval and most_skips must be at least 1, got ", options.interval, " and ",
              options.most_skips);
}

void LossScale::applied() {
  state_.in_a_row = 0;
  if (++state_.good < options_.interval) return;
  state_.value *= 2;
  state_.good = 0;
}

bool LossScale::skipped() {
  if (state_.in_a_row == options_.most_skips) return false;
  ++state_.in_a_row;
  ++state_.skipped;
  state_.value /= 2;
  state_.good = 0;
  return true;
}

}  // namespace axonn
